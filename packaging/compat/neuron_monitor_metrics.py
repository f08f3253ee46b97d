# SPDX-License-Identifier: Apache-2.0
"""Reports of neuron-monitor, one JSON object a line, as metrics with the names of its Prometheus exporter.

For the companions beside this file, which read such reports from a pipe. One thread updates a Metrics, others may read it. A line
that is no report is refused with ValueError; members that a report lacks are left out."""
import json
import threading
import time

# Of device memory, by the names that reports and metrics share.
CATEGORIES = ("constants", "model_code", "model_shared_scratchpad", "runtime_memory", "tensors")
ECC = ("mem_ecc_corrected", "mem_ecc_uncorrected", "mem_ecc_repairable_uncorrected", "sram_ecc_corrected", "sram_ecc_uncorrected")
COUNTERS = {"execution_errors_total", "execution_status_total", "hardware_ecc_events_total"}


def parse(line):
    """The report in a line."""
    try:
        report = json.loads(line)
    except RecursionError:
        raise ValueError("a line is no report of neuron-monitor: it is nested too deep") from None
    if not isinstance(report, dict) or "neuron_runtime_data" not in report:
        raise ValueError("a line is no report of neuron-monitor: it has no neuron_runtime_data")
    return report


def pods(report):
    """Labels of a core's pod, by the core's index."""
    cores = (report.get("neuron_k8s_info") or {}).get("neuroncores_k8s_info") or {}
    return {core: {"pod": pod.get("pod_name", ""), "namespace": pod.get("namespace", ""),
                   "container": ",".join(pod.get("container_name") or [])} for core, pod in cores.items()}


def runtime_samples(runtime, owner, of_core):
    """Name, labels and value of one process's metrics; counters hold what the period added."""
    groups = runtime.get("report") or {}
    for core, use in ((groups.get("neuroncore_counters") or {}).get("neuroncores_in_use") or {}).items():
        labels = {"neuroncore": core, **owner, **of_core.get(core, {})}
        yield "neuroncore_utilization_ratio", labels, use["neuroncore_utilization"] / 100
    used = (groups.get("memory_used") or {}).get("neuron_runtime_used_bytes") or {}
    for core, memory in ((used.get("usage_breakdown") or {}).get("neuroncore_memory_usage") or {}).items():
        for category in CATEGORIES:
            labels = {"memory_location": "None", "neuroncore": core, **owner, **of_core.get(core, {})}
            yield "neuroncore_memory_usage_" + category, labels, memory.get(category, 0)
    for location in ("host", "neuron_device"):
        if location in used:
            yield "neuron_runtime_memory_used_bytes", {"memory_location": location, **owner}, used[location]
    for usage, percent in ((groups.get("neuron_runtime_vcpu_usage") or {}).get("vcpu_usage") or {}).items():
        yield "neuron_runtime_vcpu_usage_ratio", {"usage_type": usage, **owner}, percent / 100
    stats = groups.get("execution_stats") or {}
    for percentile, seconds in ((stats.get("latency_stats") or {}).get("total_latency") or {}).items():
        yield "execution_latency_seconds", {"percentile": percentile, **owner}, seconds
    for kind, count in (stats.get("error_summary") or {}).items():
        yield "execution_errors_total", {"error_type": kind, **owner}, count
    for kind, count in (stats.get("execution_summary") or {}).items():
        yield "execution_status_total", {"status_type": kind, **owner}, count


def host_samples(report):
    """The same of the host and its devices."""
    system = report.get("system_data") or {}
    memory = system.get("memory_info") or {}
    for name in ("memory_total_bytes", "memory_used_bytes", "swap_total_bytes", "swap_used_bytes"):
        if name in memory:
            yield "system_" + name, {}, memory[name]
    processors = system.get("vcpu_usage") or {}
    if processors.get("usage_data"):
        yield "system_vcpu_count", {}, len(processors["usage_data"])
    for usage, percent in (processors.get("average_usage") or {}).items():
        yield "system_vcpu_usage_ratio", {"usage_type": usage}, percent / 100
    for device in (system.get("neuron_hw_counters") or {}).get("neuron_devices") or []:
        for kind in ECC:
            if kind in device and not device.get("error"):
                yield "hardware_ecc_events_total", {"event_type": kind, "neuron_device_index": str(device["neuron_device_index"])}, device[kind]
    hardware = report.get("neuron_hardware_info") or {}
    names = ("neuron_device_type", "neuron_device_version", "neuroncore_version", "neuron_device_count", "neuron_device_memory_size",
             "neuroncore_per_device_count", "logical_neuroncore_config")
    if hardware:
        yield "neuron_hardware_info", {name: str(hardware[name]) for name in names if name in hardware}, 1
    instance = report.get("instance_info") or {}
    if instance:
        names = ("instance_availability_zone", "instance_availability_zone_id", "instance_region", "ami_id")
        yield "instance_info", {name: instance.get(name) or "" for name in names}, 1


def common_labels(report):
    """Labels of every metric: which instance this is."""
    instance = report.get("instance_info") or {}
    names = {"availability_zone": "instance_availability_zone", "instance_id": "instance_id", "instance_name": "instance_name",
             "instance_type": "instance_type", "region": "instance_region", "subnet_id": "subnet_id"}
    return {label: instance[member] for label, member in names.items() if instance.get(member)}


def lines_of(pipe):
    """Lines of a pipe, also of one that has bytes which are no text: those lines are no reports."""
    pipe.reconfigure(errors="replace")
    return pipe


def samples_of(report, with_pods=False):
    """All samples of a report, or none of them: ValueError. Counters hold what its period added."""
    of_core = pods(report) if with_pods else {}
    samples = list(host_samples(report))
    for runtime in report["neuron_runtime_data"]:
        samples += runtime_samples(runtime, {"runtime_tag": runtime.get("neuron_runtime_tag", "")}, of_core)
    for name, _, value in samples:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(f"{name} is {value!r}, which is no number")
    return samples


class Metrics:
    """The newest value of each metric, and the sums of counters. Gauges of a process that reports no longer name are left out."""

    KEEP = 3  # periods

    def __init__(self, with_pods=False):
        self.with_pods = with_pods
        self.lock = threading.Lock()
        self.created = time.time()
        self.counters = {}
        self.gauges = {}  # name and labels: value, number of the report

    def update(self, report):
        with self.lock:
            common = common_labels(report)
            fresh = {}
            for name, labels, value in samples_of(report, self.with_pods):
                key = name, tuple(sorted({**labels, **common}.items()))
                if name in COUNTERS:
                    self.counters[key] = self.counters.get(key, 0) + value
                elif name == "execution_latency_seconds" or "utilization" in name:
                    fresh[key] = max(value, fresh.get(key, value))
                else:
                    fresh[key] = fresh.get(key, 0) + value
            # Groups may have periods of their own: a value is dropped when several reports have passed without it.
            aged = {key: (value, age + 1) for key, (value, age) in self.gauges.items() if age + 1 < self.KEEP}
            self.gauges = {**aged, **{key: (value, 0) for key, value in fresh.items()}}

    def text(self):
        """The text format of Prometheus, version 0.0.4."""
        with self.lock:
            families = {}
            for (name, labels), (value, _) in self.gauges.items():
                families.setdefault((name, "gauge"), []).append((labels, value))
            for (name, labels), value in self.counters.items():
                families.setdefault((name, "counter"), []).append((labels, value))
                families.setdefault((name.removesuffix("_total") + "_created", "gauge"), []).append((labels, self.created))
        lines = []
        for (name, kind), samples in sorted(families.items()):
            lines.append(f"# TYPE {name} {kind}")
            for labels, value in samples:
                inside = ",".join(f'{label}="{escaped(text)}"' for label, text in labels)
                lines.append(f"{name}{{{inside}}} {value:g}" if isinstance(value, float) and value < 1e6 else f"{name}{{{inside}}} {value!r}")
        return "\n".join(lines) + "\n"


def escaped(text):
    return str(text).replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
