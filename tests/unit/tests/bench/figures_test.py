#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of tests/bench/figures.py: its page says of every miss what explains it, or that nobody has found out."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench"))
import figures

README = "# bench\n\n1. **Copies.** They take time.\n2. **Misses.** They take more.\n"


def row(ratio, goal, at_most, met, day="2026-12-01", peer="a peer"):
    return {"ratio": ratio, "goal": goal, "at most": at_most, "met": met, "peer": peer, "day": day}


class Figures(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        (self.folder / "baselines").mkdir()

    def write(self, baselines, bounds="", readme=README):
        for name, rows in baselines.items():
            (self.folder / "baselines" / f"{name}.json").write_text(json.dumps(rows), encoding="utf-8")
        (self.folder / "bounds.tsv").write_text(bounds, encoding="utf-8")
        (self.folder / "README.md").write_text(readme, encoding="utf-8")

    def run_main(self, *arguments):
        told = io.StringIO()
        with contextlib.redirect_stderr(told):
            status = figures.main(list(arguments), self.folder)
        return status, told.getvalue()

    def page(self):
        self.assertEqual((0, ""), self.run_main())
        return (self.folder / figures.PAGE).read_text(encoding="utf-8")

    def test_a_miss_is_bold_with_its_bound_and_a_question_mark_without(self):
        self.write({"AuthenticAMD-26-2": {"launch": row(0.08, 0.05, True, False), "softmax": row(0.49, 0.5, False, False), "gelu": row(0.6, 0.5, False, True)}},
                   "launch\tAuthenticAMD-*\t1, 2\n")
        page = self.page()
        self.assertIn("| launch | a peer | ≤ 0.05 | **0.08** [1, 2] |", page)
        self.assertIn("| softmax | a peer | ≥ 0.5 | **0.49** [?] |", page)
        self.assertIn("| gelu | a peer | ≥ 0.5 | 0.6 |", page)
        self.assertIn("| AMD, family 26, model 2 | 2026-12-01 | 3 | 1 | 1 | 1 |", page)

    def test_what_bounds_one_processor_bounds_no_other(self):
        miss = {"launch": row(0.08, 0.05, True, False)}
        self.write({"AuthenticAMD-26-2": miss, "GenuineIntel-6-167": miss}, "launch\tGenuineIntel-*\t2\n")
        self.assertIn("| **0.08** [?] | **0.08** [2] |", self.page())

    def test_goals_that_differ_stand_at_the_figures(self):
        self.write({"AuthenticAMD-26-2": {"matmul-bf16": row(0.8, 0.9, False, False)}, "GenuineIntel-6-167": {"matmul-bf16": row(0.7, 0.6, False, True)}})
        self.assertIn("| matmul-bf16 | a peer | ≥ 0.6; ≥ 0.9 | **0.8** (≥ 0.9) [?] | 0.7 |", self.page())

    def test_a_figure_without_a_goal_misses_nothing(self):
        self.write({"AuthenticAMD-26-2": {"matmul-bf16-onednn": row(0.1, 0, False, True)}})
        page = self.page()
        self.assertIn("| matmul-bf16-onednn | a peer | none | 0.1 |", page)
        self.assertIn("| AMD, family 26, model 2 | 2026-12-01 | 0 | 0 | 0 | 0 |", page)

    def test_an_older_figure_has_its_day(self):
        self.write({"AuthenticAMD-26-2": {"launch": row(0.04, 0.05, True, True), "gelu": row(0.6, 0.5, False, True, day="2026-11-01")}})
        self.assertIn("| 0.6, 2026-11-01 |", self.page())

    def test_ranks_and_sizes_are_a_table_of_their_own(self):
        self.write({"AuthenticAMD-26-2": {"allreduce-2-8": row(1.2, 1.5, False, False), "allreduce-2-65536": row(9, 4, False, True),
                                          "hosts-device-allreduce-1048576": row(0.3, 0.8, False, False)}}, "allreduce-2-8\t*\t1\n")
        page = self.page()
        self.assertIn("| ranks | processor | 8 B | 64 KiB |", page)
        self.assertIn("| 2 | the goal | ≥ 1.5 | ≥ 4 |\n| 2 | AMD, family 26, model 2 | **1.2** [1] | 9 |", page)
        self.assertIn("| 2 x 4 | AMD, family 26, model 2 | **0.3** [?] |", page)

    def test_no_benchmark_is_left_out_in_silence(self):
        self.write({"AuthenticAMD-26-2": {"unheard-of": row(1, 1, False, True)}})
        self.assertEqual((1, "figures.py: no group of figures.py has unheard-of\n"), self.run_main())

    def test_a_bound_has_a_paragraph_and_a_benchmark(self):
        rows = {"AuthenticAMD-26-2": {"launch": row(0.08, 0.05, True, False)}}
        self.write(rows, "launch\t*\t3\n")
        self.assertEqual((1, "figures.py: bounds.tsv: launch is bounded by 3, and README.md has no such paragraph\n"), self.run_main())
        self.write(rows, "lunch\t*\t1\n")
        self.assertEqual((1, "figures.py: bounds.tsv: no benchmark is called lunch\n"), self.run_main())
        self.write(rows, "launch\tIntel\t1\n")
        self.assertEqual((1, "figures.py: bounds.tsv: no processor is called Intel\n"), self.run_main())
        self.write(rows, "launch 1\n")
        self.assertEqual((1, "figures.py: bounds.tsv:1: 1 columns, expected benchmark, processor and number\n"), self.run_main())

    def test_a_miss_does_not_look_like_its_goal(self):
        self.write({"AuthenticAMD-26-2": {"launch": row(0.0501, 0.05, True, False), "gelu": row(0.501, 0.5, False, True)}})
        page = self.page()
        self.assertIn("| **0.0501** [?] |", page)
        self.write({"AuthenticAMD-26-2": {"softmax": row(0.4998, 0.5, False, False)}})
        self.assertIn("| **0.4998** [?] |", self.page())

    def test_what_is_no_baseline_is_named(self):
        self.write({"AuthenticAMD-26-2": {"launch": 0.05}})
        self.assertEqual((1, "figures.py: AuthenticAMD-26-2.json: launch lacks one of at most, day, goal, met, peer, ratio\n"), self.run_main())
        (self.folder / "baselines" / "AuthenticAMD-26-2.json").write_text("{", encoding="utf-8")
        status, told = self.run_main()
        self.assertEqual(1, status)
        self.assertIn("AuthenticAMD-26-2.json is no JSON", told)

    def test_a_stale_page_is_told(self):
        self.write({"AuthenticAMD-26-2": {"launch": row(0.08, 0.05, True, False)}})
        stale = (1, "figures.md is not what baselines/ and bounds.tsv give; run tests/bench/figures.py\n")
        self.assertEqual(stale, self.run_main("--check"))
        self.page()
        self.assertEqual((0, ""), self.run_main("--check"))
        self.write({"AuthenticAMD-26-2": {"launch": row(0.09, 0.05, True, False)}})
        self.assertEqual(stale, self.run_main("--check"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
