#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""neuron-monitor | neuron-monitor-cloudwatch.py --namespace NAME --region REGION: sends the reports of a pipe to Amazon CloudWatch.

Names are those of the Prometheus metrics, labels are dimensions, and counters are what each period added. It needs boto3, and
credentials where boto3 looks for them. What cannot be sent is told and left out. Exit status 0: the pipe has ended, 1: boto3 is
missing or refuses the region, 2: wrong usage."""
import argparse
import sys

import neuron_monitor_metrics as metrics

AT_ONCE = 500  # of 1,000 that a request may hold
DIMENSIONS = 30  # that a metric may have


def unit_of(name):
    if name.endswith("_bytes") or "_memory_usage_" in name:
        return "Bytes"
    if name.endswith("_seconds"):
        return "Seconds"
    return "Count" if name in metrics.COUNTERS or name.endswith("_count") else "None"


def data_of(report):
    common = metrics.common_labels(report)
    for name, labels, value in metrics.samples_of(report):
        dimensions = [{"Name": label, "Value": str(text)} for label, text in {**labels, **common}.items() if text]
        yield {"MetricName": name, "Dimensions": dimensions[:DIMENSIONS], "Value": float(value), "Unit": unit_of(name)}


def complain(sentence):
    print(f"neuron-monitor-cloudwatch.py: {sentence}", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--namespace", required=True, help="namespace of the metrics")
    parser.add_argument("--region", required=True, help="region, such as eu-central-1")
    arguments = parser.parse_args()
    try:
        import boto3  # of the user's own choice of version
    except ImportError:
        complain("boto3 is not installed: apt install python3-boto3, or pip install boto3")
        return 1
    try:
        client = boto3.client("cloudwatch", region_name=arguments.region)
    except Exception as error:  # pylint: disable=broad-except  # its exceptions have no common root
        complain(f"boto3 cannot make a client for region {arguments.region}: {error}")
        return 1
    for line in metrics.lines_of(sys.stdin):
        try:
            data = list(data_of(metrics.parse(line)))
            for first in range(0, len(data), AT_ONCE):
                client.put_metric_data(Namespace=arguments.namespace, MetricData=data[first:first + AT_ONCE])
        except Exception as error:  # pylint: disable=broad-except
            complain(f"a report is left out: {error}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(0)
