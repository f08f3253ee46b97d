#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of lint itself: each check refuses what it is there to refuse, on a small tree made for it."""
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cpp
import cycles
import dialect
import includes
import layers
import licences
import methods
import pictures
import promises
import repeats
import tidy

CHAIN = {
    "driver/isa/isa.h": '#include "hw/isa.h"\n',
    "include/hw/isa.h": "#include <stdint.h>\n",
    "runtime/neff/neff.h": "",
    "runtime/tensor/tensor.h": '#include "runtime/neff/neff.h"\n',
    "runtime/session/session.h": '#include <vector>\n\n#include "driver/isa/isa.h"\n#include "runtime/tensor/tensor.h"\n',
    "runtime/api/api.cpp": '#include "runtime/neff/neff.h"\n#include "runtime/session/session.h"\n',
}
CHAIN_ROWS = """# comment
driver/isa: include/hw
include/hw:
runtime/neff:
runtime/tensor: runtime/neff
runtime/session: driver/isa
    runtime/tensor
runtime/api: runtime/neff runtime/session
"""


class Tree(unittest.TestCase):
    """A tree of its own for each test; the working folder is its root."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        self.git("init", "-q")

    def git(self, *arguments):
        names = ["-c", "user.name=Test", "-c", "user.email=test@example.com"]
        subprocess.run(["git", *names, *arguments], check=True, capture_output=True)

    def write(self, files):
        for name, text in files.items():
            os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
            with open(name, "w", encoding="utf-8") as file:
                file.write(text)

    def graph(self, files):
        self.write(files)
        return includes.arrows(includes.read())

    def run_main(self, module, *arguments):
        """(exit status, output) of a check."""
        output = io.StringIO()
        with mock.patch.object(sys, "argv", [module.__name__, *arguments]), contextlib.redirect_stdout(output):
            status = module.main()
        return status, output.getvalue()


class Includes(Tree):
    def test_a_file_belongs_to_the_folder_it_lies_in(self):
        graph = self.graph({"driver/emulator/library.cpp": '#include "driver/emulator/chip/chip.h"\n', "driver/emulator/chip/chip.h": ""})
        self.assertEqual({"driver/emulator": ["driver/emulator/chip"], "driver/emulator/chip": []}, {k: list(v) for k, v in graph.items()})

    def test_a_header_of_include_is_found_before_a_folder_of_the_same_name(self):
        graph = self.graph({"include/ccom/ccom.h": "", "ccom/api/api.cpp": "#  include <ccom/ccom.h>\n"})
        self.assertEqual(["include/ccom"], list(graph["ccom/api"]))

    def test_a_generated_header_belongs_to_the_folder_of_what_it_is_generated_from(self):
        graph = self.graph({"driver/control/control.proto": "", "tools/ctl/main.cpp": '#include "driver/control/control.pb.h"\n'})
        self.assertEqual(["driver/control"], list(graph["tools/ctl"]))

    def test_an_include_in_a_comment_of_its_own_line_is_none(self):
        graph = self.graph({"runtime/a/a.cpp": '// #include "runtime/b/b.h"\n', "runtime/b/b.h": ""})
        self.assertEqual([], list(graph["runtime/a"]))


class Cycles(Tree):
    def test_a_chain_has_no_circle(self):
        self.assertEqual([], cycles.complaints(self.graph(CHAIN)))

    def test_an_include_that_closes_a_circle_fails_with_its_path_and_a_line_for_each_step(self):
        self.write(CHAIN)
        self.write({"runtime/neff/neff.cpp": '\n#include "runtime/session/session.h"\n'})
        status, output = self.run_main(cycles)
        self.assertEqual(1, status)
        self.assertIn("circle: runtime/neff -> runtime/session -> runtime/tensor -> runtime/neff\n", output)
        self.assertIn("runtime/neff/neff.cpp:2 includes runtime/session/session.h", output)
        self.assertIn("runtime/session/session.h:4 includes runtime/tensor/tensor.h", output)
        self.assertIn("runtime/tensor/tensor.h:1 includes runtime/neff/neff.h", output)

    def test_a_folder_and_one_below_it_are_two_folders(self):
        for path in ("tools/top/top.h", "../top.h"):
            graph = self.graph({"tools/top/main.cpp": '#include "tools/top/screen/s.h"\n', "tools/top/top.h": "", "tools/top/screen/s.h": f'#include "{path}"\n'})
            self.assertIn("tools/top -> tools/top/screen -> tools/top", cycles.complaints(graph)[0])

    def test_neighbours_with_all_below_them_have_no_circle_either(self):
        graph = self.graph(
            {
                "driver/emulator/chip/chip.h": '#include "driver/ndl/ndl.h"\n',
                "driver/emulator/service/service.h": "",
                "driver/ndl/ndl.h": "",
                "driver/ndl/port/port.h": '#include "driver/emulator/service/service.h"\n',
            }
        )
        (complaint,) = cycles.complaints(graph)
        self.assertIn("driver/emulator -> driver/ndl -> driver/emulator", complaint)


class Layers(Tree):
    def complaints(self, rows, files=None):
        rows, complaints = layers.read_rows(rows)
        self.write(CHAIN)
        return complaints + layers.differences(rows, self.graph(files or {}))

    def test_rows_that_equal_the_includes_pass(self):
        self.assertEqual([], self.complaints(CHAIN_ROWS))

    def test_an_include_without_an_entry_fails_and_names_the_line(self):
        (complaint,) = self.complaints(CHAIN_ROWS, {"runtime/tensor/slice.h": '#include "driver/isa/isa.h"\n'})
        self.assertIn("runtime/tensor/slice.h:1 includes driver/isa/isa.h: the row of runtime/tensor", complaint)

    def test_an_entry_that_no_include_uses_fails(self):
        (complaint,) = self.complaints(CHAIN_ROWS.replace("runtime/api: ", "runtime/api: driver/isa "))
        self.assertIn("runtime/api may include driver/isa, and does not", complaint)

    def test_a_folder_without_a_row_fails(self):
        (complaint,) = self.complaints(CHAIN_ROWS, {"runtime/exec/launch.cpp": '#include "hw/isa.h"\n'})
        self.assertIn("runtime/exec has no row; what it includes: include/hw", complaint)

    def test_a_row_without_a_folder_fails(self):
        (complaint,) = self.complaints(CHAIN_ROWS + "runtime/queue: runtime/neff\n")
        self.assertIn("runtime/queue has a row, and no sources", complaint)

    def test_a_folder_with_two_rows_fails(self):
        (complaint,) = self.complaints(CHAIN_ROWS + "runtime/neff:\n")
        self.assertIn("runtime/neff has two rows", complaint)

    def test_a_row_does_not_allow_what_the_layer_must_not_include(self):
        self.write(CHAIN)
        self.write({"driver/emulator/chip/chip.h": '#include "driver/core/ring.h"\n', "driver/core/ring.h": "#include <string.h>\n"})
        (complaint,) = layers.broken_rules(includes.read())
        self.assertIn("driver/emulator/chip/chip.h:1 includes driver/core/ring.h: driver/emulator/chip/ may include", complaint)

    def test_a_layer_that_must_stay_free_of_the_system_fails_with_a_header_of_it(self):
        self.write({"driver/core/ring.h": "#include <stdint.h>\n#include <stdlib.h>\n", "include/hw/dma.h": "#include <string.h>\n"})
        complaints = layers.broken_rules(includes.read())
        self.assertEqual(2, len(complaints))
        self.assertIn("driver/core/ring.h:2 includes stdlib.h", complaints[0])

    def test_a_single_header_may_be_allowed(self):
        self.write({"include/nrt/nec.h": "", "include/nrt/nrt.h": "", "ccom/a/a.h": "#include <nrt/nec.h>\n#include <nrt/nrt.h>\n"})
        (complaint,) = layers.broken_rules(includes.read())
        self.assertIn("ccom/a/a.h:2 includes include/nrt/nrt.h", complaint)

    def test_what_it_writes_passes(self):
        self.write(CHAIN)
        self.write({layers.TABLE: "# a comment that stays\n\nruntime/queue: driver/isa\n"})
        self.assertEqual((1, 0, 0), (self.run_main(layers)[0], self.run_main(layers, "--write")[0], self.run_main(layers)[0]))
        with open(layers.TABLE, encoding="utf-8") as file:
            self.assertIn("# a comment that stays\n", file.read())


class Pictures(Tree):
    PICTURE = "api     → session\nsession → tensor\ntensor  → neff\nneff\n"

    def complaints(self, picture, files=None):
        self.write(CHAIN)
        return pictures.differences("README.md", pictures.parse(picture), pictures.part(self.graph(files or {}), "runtime"))

    def test_the_drawn_picture_leaves_out_what_follows_and_points_down(self):
        self.assertEqual(self.PICTURE, pictures.draw(pictures.part(self.graph(CHAIN), "runtime")))

    def test_a_picture_that_equals_the_includes_passes(self):
        self.assertEqual([], self.complaints(self.PICTURE))

    def test_a_missing_arrow_fails_and_names_an_include(self):
        (complaint,) = self.complaints(self.PICTURE.replace(" → neff", ""))
        self.assertIn("lacks the arrow tensor → neff: runtime/tensor/tensor.h:1 includes runtime/neff/neff.h", complaint)

    def test_an_arrow_that_is_no_include_fails(self):
        (complaint,) = self.complaints("exec\n" + self.PICTURE + "  exec\n", {"runtime/exec/a.h": ""})[:1]
        self.assertIn("arrow neff → exec, and no file includes that", complaint)

    def test_an_arrow_that_follows_from_others_fails(self):
        (complaint,) = self.complaints(self.PICTURE.replace("→ session", "→ neff session"))
        self.assertIn("api → neff follows from others", complaint)

    def test_a_missing_folder_and_one_that_is_gone_fail(self):
        complaints = self.complaints(self.PICTURE + "queue\n", {"runtime/exec/a.h": ""})
        self.assertEqual(["README.md: the picture lacks exec", "README.md: the picture has queue, which has no sources"], complaints)

    def test_an_arrow_upwards_fails(self):
        (complaint,) = self.complaints("neff\n" + self.PICTURE.replace("\nneff\n", "\n"))
        self.assertIn("tensor → neff points upwards", complaint)

    def test_it_writes_all_readmes_and_then_they_pass(self):
        self.write(CHAIN)
        readmes = {top + "README.md": f"# {top}\n\nText.\n\n## More\n" for top in ("driver/", "ccom/", "tools/")}
        self.write({**readmes, "runtime/README.md": "# runtime\n\n```layers\nold\n```\n\nText behind.\n"})
        self.assertEqual((1, 0, 0), (self.run_main(pictures)[0], self.run_main(pictures, "--write")[0], self.run_main(pictures)[0]))
        with open("runtime/README.md", encoding="utf-8") as file:
            self.assertEqual(f"# runtime\n\n```layers\n{self.PICTURE}```\n\nText behind.\n", file.read())
        with open("driver/README.md", encoding="utf-8") as file:
            self.assertIn("```layers\nisa\n```\n\n## More\n", file.read())


class Methods(Tree):
    def count(self, text):
        return {found.name: found.methods for found in methods.counts("a.h", text)}

    def test_constructors_destructors_operators_overloads_and_static_functions_count(self):
        text = """class A : public B<int, (1 < 2)> {
           public:
            A();
            explicit A(int a) : a_(a), b_{a, 1}, B<int, 3>(a) { f(); }
            ~A();
            A& operator=(const A& other);
            bool operator()(int) const { return true; }
            bool operator<(const A&) const;
            A operator<<(int);
            explicit operator bool() const noexcept;
            operator std::vector<int>() const;
            void* operator new(size_t);
            auto operator<=>(const A&) const;
            static int f(int);
            static int f(long);
            virtual void g() const = 0;
            void h() const&;
           private:
            int a_ = f(3);
            std::vector<int> b_;
          };"""
        self.assertEqual({"A": 15}, self.count(text))

    def test_what_is_default_or_delete_does_not_count(self):
        self.assertEqual({"A": 1}, self.count("class A { A() = default; A(const A&) = delete; A& operator=(A&&) noexcept = default; virtual void f() = 0; };"))

    def test_friends_types_and_data_do_not_count(self):
        text = """struct A {
            friend class B;
            friend bool operator==(const A& a, const A& b) { return a.x == b.x; }
            friend void swap(A&, A&);
            template <class T> friend int get(T);
            using F = int (*)(int);
            typedef int (*G)(int);
            enum class E : unsigned { a = (1), b };
            static_assert(sizeof(int) == 4, "f(x)");
            std::function<void(int)> f = [this](int a) { g(a); };
            std::array<int, (3 > 2)> g{1, 2};
            int (*pointer)(int) = nullptr;
            int (B::*member)(int);
            void (*table[3])(int);
            alignas(64) std::atomic<int> x{0};
            decltype(make(1)) y;
            [[no_unique_address]] Empty empty;
            unsigned bits : sizeof(int);
            struct stat status;
            static constexpr int kLimit = size < 3 ? f(1) : g(2);
          };"""
        self.assertEqual(0, self.count(text)["A"])

    def test_templates_and_constraints_count_once(self):
        text = """template <typename T, int (*F)(int) = nullptr> requires std::integral<T> && (sizeof(T) < 8)
          class A final {
            template <typename U = std::vector<std::vector<int>>> void f(U&& u) { u(); }
            template <class U> requires requires(U u) { u.f(); u.g(); } void g(U u);
            template <class... U> explicit(sizeof...(U) == 1) A(U&&... u) : t_(std::forward<U>(u))... {}
            auto h() const -> decltype(f(1)) requires Small<T> { return f(1); }
            void i() noexcept(noexcept(f(1)));
            [[nodiscard]] std::map<int, std::string> j(std::function<int(int)> f = [](int a) { return a; }) const;
          };"""
        self.assertEqual({"A": 6}, self.count(text))

    def test_nested_classes_have_a_count_of_their_own(self):
        text = "struct A { struct B { void f(); void g(); }; class C; B b() { struct D { int f(); }; return {}; } struct { int x; } c; };"
        self.assertEqual({"A": 1, "B": 2, "D": 1, "(without a name)": 0}, self.count(text))

    def test_bodies_comments_literals_and_directives_are_not_members(self):
        text = '''class A {
            // void f();
            /* void g(); */
            void h() { auto s = R"x(" } void i(); )x"; char c = '}'; int n = 1'000'000; if (a < b) call(); }
          #if FIRST
            void j() {
          #else
            void j() const {
          #endif
            }
          #define MORE void k();
            MACRO(A)
            ANOTHER_MACRO(A);
            void l() try { f(); } catch (...) { g(); }
          };'''
        self.assertEqual({"A": 3}, self.count(text))

    def test_what_is_no_class_is_none(self):
        text = "enum class E { a }; template <class T, struct S> void f(T); struct stat buffer; void g(struct stat* s) {} class A;"
        self.assertEqual({}, self.count(text))

    def test_a_specialisation_and_a_member_of_another_class_have_their_names(self):
        self.assertEqual({"A": 1, "A::Impl": 2}, self.count("template <> struct A<int> { A(); }; struct EXPORT A::Impl : B { Impl(); void f(); };"))

    def test_41_methods_fail_and_an_exception_allows_as_many_as_it_says(self):
        body = "".join(f"  void f{i}();\n" for i in range(41))
        self.write({"driver/a/a.h": f"class A {{\n{body}}};\n", methods.TABLE: "# none\n"})
        status, output = self.run_main(methods)
        self.assertEqual((1, "driver/a/a.h:1: A has 41 methods, the limit is 40; split it by noun\n"), (status, output))
        for row, wanted in (("41 it is a table", 0), ("42 it is a table", 1), ("40 it is a table", 1), ("41", 1)):
            self.write({methods.TABLE: f"driver/a/a.h A {row}\n"})
            self.assertEqual(wanted, self.run_main(methods)[0], row)

    def test_an_exception_that_is_not_needed_fails(self):
        self.write({"driver/a/a.h": "class A { void f(); };\n", methods.TABLE: "driver/a/a.h A 41 it was long\n"})
        self.assertIn("driver/a/a.h A needs no exception", self.run_main(methods)[1])


class Repeats(Tree):
    LINES = [f"  statement({i});" for i in range(13)]

    def runs(self, first, second):
        return repeats.runs({"a.cpp": repeats.lines_of("a.cpp", "\n".join(first)), "b.cpp": repeats.lines_of("b.cpp", "\n".join(second))})

    def test_13_equal_lines_fail_and_12_pass(self):
        self.assertEqual([], self.runs(self.LINES[:12], self.LINES[:12]))
        self.assertEqual([repeats.Run(("a.cpp", 1), ("b.cpp", 2), 13)], self.runs(self.LINES, ["other();"] + self.LINES))

    def test_comments_blank_lines_includes_and_indentation_do_not_count(self):
        other = ["// why", "", *self.LINES[:6], '#include "x.h"', "  /* and", "     how */", "", *("  " + line for line in self.LINES[6:])]
        self.assertEqual([13], [run.lines for run in self.runs(self.LINES, other)])

    def test_text_in_a_literal_counts(self):
        other = [line.replace("3", '"// 3"') for line in self.LINES]
        self.assertEqual([], self.runs(self.LINES, other))
        self.assertEqual([13], [run.lines for run in self.runs(other, other)])

    def test_a_run_is_told_once_with_all_of_its_lines(self):
        lines = self.LINES + [f"more({i});" for i in range(20)]
        self.assertEqual([33], [run.lines for run in self.runs(lines, lines)])

    def test_a_run_within_a_file_is_found(self):
        self.assertEqual([repeats.Run(("a.cpp", 1), ("a.cpp", 15), 13)], self.runs(self.LINES + ["}"] + self.LINES, []))

    def test_equal_lines_in_a_row_are_no_run_of_themselves(self):
        self.assertEqual([], self.runs(["0,"] * 20, []))

    def test_an_exception_hides_and_must_be_needed(self):
        text = "\n".join(self.LINES)
        self.write({"driver/a.cpp": text, "tools/b.cpp": text, "tests/c.cpp": text, repeats.TABLE: ""})
        self.assertEqual((1, "driver/a.cpp:1: 13 lines are also at tools/b.cpp:1\n"), self.run_main(repeats))
        self.write({repeats.TABLE: "driver/a.cpp tools/b.cpp two tables of the same facts\n"})
        self.assertEqual(0, self.run_main(repeats)[0])
        self.write({"tools/b.cpp": ""})
        self.assertIn("needs no exception", self.run_main(repeats)[1])


class Dialect(Tree):
    def mended(self, text, name="runtime/a/a.cpp"):
        """The text as --fix leaves it, with each run of white space as one space."""
        return " ".join(dialect.mended(text, dialect.findings(name, text)).split())

    def assert_quiet(self, text, name="runtime/a/a.cpp"):
        self.assertEqual([], [finding.text for finding in dialect.findings(name, text)])

    def test_types_of_c_have_no_std(self):
        self.assertEqual("uint32_t f(size_t n, std::vector<uintptr_t> v);", self.mended("std::uint32_t f(std::size_t n, std::vector<std::uintptr_t> v);"))
        self.assert_quiet('uint8_t a; std::string b; std::byte c; "std::size_t"; // std::size_t\n')

    def test_a_guard_is_the_path_in_capitals(self):
        good = "// Text.\n#ifndef RUNTIME_A_THE_FILE_H\n#define RUNTIME_A_THE_FILE_H\nint a;\n#endif\n"
        self.assert_quiet(good, "runtime/a/the_file.h")
        bad = good.replace("FILE_H", "FILE_H_").replace("#endif", "#endif  // RUNTIME_A_THE_FILE_H_")
        self.assertEqual(2, len(dialect.findings("runtime/a/the_file.h", bad)))
        self.assertEqual(good, dialect.mended(bad, dialect.findings("runtime/a/the_file.h", bad)))
        self.assertEqual(1, len(dialect.findings("runtime/a/the_file.h", "#pragma once\n")))
        self.assert_quiet("int a;\n", "runtime/a/loops-inl.h")
        self.assert_quiet("#ifndef NDL_H\n#define NDL_H\n#endif  // NDL_H\n", "include/ndl/ndl.h")

    def test_an_increment_stands_in_front_where_nobody_reads_the_value(self):
        for bad, good in (
            ("f(); i++;", "f(); ++i;"),
            ("for (int i = 0; i < n; i++) f();", "for (int i = 0; i < n; ++i) f();"),
            ("for (;; i++, a.b[i]--) f();", "for (;; ++i, --a.b[i]) f();"),
            ("if (a) this->count_++;", "if (a) ++this->count_;"),
            ("if (a) f(); else (*b)++;", "if (a) f(); else ++(*b);"),
            ("switch (a) { case x::y: n++; }", "switch (a) { case x::y: ++n; }"),
            ("{ at(1).counts()[2]--; }", "{ --at(1).counts()[2]; }"),
        ):
            self.assertEqual(good, self.mended(bad))
        for good in (
            "a = i++;", "return i--;", "f(i++, 1);", "*p++ = 1;", "for (; n--;) f();", "while (n--) f();", "a[i++];", "x ? f() : i++;",
            "for (int i = n; i-- > 0;) f();", "for (;; f(i++)) g();", "a < i++;",
        ):  # fmt: skip
            self.assert_quiet(good)
        self.assert_quiet("i++;", "driver/core/ring.c")

    def test_a_body_on_another_line_stands_in_braces(self):
        for bad, good in (
            ("if (a)\n  f();\ng();", "if (a) { f(); } g();"),
            ("for (int i = 0; i < 3; ++i)\n  f(i);  // why", "for (int i = 0; i < 3; ++i) { f(i); // why }"),
            ("if (a)\n  f();\nelse\n  g();", "if (a) { f(); } else { g(); }"),
            ("if (a) {\n  f();\n} else if (b)\n  g();\nelse\n  h();", "if (a) { f(); } else if (b) { g(); } else { h(); }"),
            ("for (auto a : b)\n  if (a)\n    f([] { return 1; });\ng();", "for (auto a : b) { if (a) { f([] { return 1; }); } } g();"),
            ("if (a) [[unlikely]]\n  f();", "if (a) [[unlikely]] { f(); }"),
            ("if constexpr (a)\n  f();", "if constexpr (a) { f(); }"),
            ("while (a)\n  do f(); while (b);\ng();", "while (a) { do f(); while (b); } g();"),
        ):
            self.assertEqual(good, self.mended(bad + "\n"))
            self.assert_quiet(dialect.mended(bad + "\n", dialect.findings("runtime/a/a.cpp", bad + "\n")))
        self.assert_quiet("if (a) return 1;\nif (a) f(); else g();\nfor (;;) {\n}\nif (a) [[likely]] {\n}\nwhile (f()) ;\n")
        self.assert_quiet("if (a)\n\tf();\n", "driver/kmod/ring.c")

    def test_lines_of_the_preprocessor_are_left_alone(self):
        self.assert_quiet("#define F(i) \\\n  if (i) \\\n    i++;\n")

    def test_fix_changes_the_files(self):
        self.write({"tools/a/a.cpp": "std::size_t n;\n", "tools/b/b.cpp": "std::size_t n;\n"})
        self.assertEqual(0, self.run_main(dialect, "--fix", "tools/a")[0])
        self.assertEqual((1, "tools/b/b.cpp:1: write size_t without std::\n"), self.run_main(dialect))


class Tokens(unittest.TestCase):
    def test_offsets_and_lines_are_those_of_the_file(self):
        text = 'a /* b\n c */ "d\\"e" R"(f\n g)" h // i\n#if j\nk\n#else\nl\n#endif\nm\'n\''
        found = cpp.tokens(text)
        self.assertEqual(["a", "h", "k", "m"], [token.text for token in found if token.text.isidentifier() and text[token.begin : token.end] == token.text])
        self.assertEqual([1, 3, 5, 9], [token.line for token in found if token.text.isidentifier()][:4])


class Tidy(Tree):
    def test_a_command_loses_what_only_its_compiler_understands(self):
        command = "c++ -I. -O2 -gz=zlib -g1 -fpch-preprocess -Wall -Winvalid-pch -include /b/cmake_pch.hxx -include x.h -o a.o -c a.cpp"
        self.assertEqual("c++ -I. -O2 -include x.h -c a.cpp".split(), tidy.clean(command.split()))

    def test_sources_that_are_compiled_at_once_have_an_entry_each(self):
        self.write({"a.cpp": "", "b.cpp": "", "c.cpp": ""})
        here = os.getcwd()
        unity = f"{here}/build/x.dir/Unity/unity_0_cxx.cxx"
        self.write({
            "build/x.dir/Unity/unity_0_cxx.cxx": f'/* CMake */\n#include "{here}/a.cpp"\n\n#include "{here}/b.cpp"\n',
            "build/compile_commands.json": json.dumps([
                {"directory": "/d", "file": unity, "command": f"c++ -O2 -o u.o -c {unity}"},
                {"directory": "/d", "file": f"{here}/c.cpp", "command": f"c++ -o c.o -c {here}/c.cpp"},
            ]),
        })
        found = tidy.database("build")
        self.assertEqual({"a.cpp", "b.cpp", "c.cpp"}, set(found))
        self.assertEqual(["c++", "-O2", "-c", f"{here}/b.cpp"], found["b.cpp"]["arguments"])
        self.assertEqual(["c++", "-c", f"{here}/c.cpp"], found["c.cpp"]["arguments"])

    def changed(self, limit):
        sources = {name: {} for name in tidy.tree.files(".cpp")}
        return tidy.changed_sources(sources, limit)

    def test_what_changed_last_comes_first_and_headers_stand_for_a_source(self):
        self.write({"tools/a.cpp": "", "tools/b.cpp": '#include "tools/c.h"\n', "tools/c.h": "", "tools/d.cpp": ""})
        self.git("add", "-A")
        self.git("commit", "-qm", "all")
        self.assertEqual(1, len(self.changed(1)[0]))
        self.assertIn("at random", self.changed(1)[1])
        self.write({"tools/d.cpp": "int d;\n"})
        self.git("commit", "-qam", "d")
        self.write({"tools/a.cpp": "int a;\n"})
        self.git("commit", "-qam", "a")
        self.write({"tools/c.h": "int c;\n"})
        self.assertEqual(["tools/b.cpp", "tools/a.cpp", "tools/d.cpp"], self.changed(3)[0])
        self.assertEqual(["tools/b.cpp"], self.changed(1)[0])


class Licences(Tree):
    """A file that says its licence, one for which REUSE.toml says it, and both texts."""

    def setUp(self):
        super().setUp()
        self.write({
            "driver/core/a.c": "/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */\n",
            "data.csv": "1,2\n",
            "REUSE.toml": '# SPDX-License-Identifier: Apache-2.0\n[[annotations]]\npath = ["*.csv"]\nSPDX-License-Identifier = "Apache-2.0"\n',
            "LICENSES/Apache-2.0.txt": "text\n",
            "LICENSES/GPL-2.0-only.txt": "text\n",
        })

    def assert_one(self, word):
        found = licences.complaints()
        self.assertEqual(1, len(found), found)
        self.assertIn(word, found[0])

    def test_files_that_say_it_or_are_listed_pass(self):
        self.assertEqual([], licences.complaints())

    def test_a_file_without_a_licence_fails(self):
        self.write({"tools/run": "#!/bin/sh\n"})
        self.assert_one("tools/run")

    def test_a_file_of_a_folder_is_not_covered_by_a_star_that_stands_for_names(self):
        self.write({"tools/more.csv": "1\n"})
        self.assert_one("tools/more.csv")

    def test_a_licence_without_its_text_fails(self):
        self.write({"b.py": "# SPDX-License-Identifier: MIT\n"})
        self.assert_one("LICENSES/MIT.txt")

    def test_a_text_that_no_file_names_fails(self):
        self.write({"LICENSES/MIT.txt": "text\n"})
        self.assert_one("no file names")

    def test_an_entry_that_matches_no_file_fails(self):
        os.remove("data.csv")
        self.assert_one("*.csv")

    def test_a_source_of_the_kernel_module_under_another_licence_fails(self):
        self.write({"driver/kmod/b.c": "// SPDX-License-Identifier: Apache-2.0\n"})
        self.assert_one("driver/kmod/b.c")


class Promises(Tree):
    """A page with one row, a program that has two tests, and a file of the guest's tests."""

    def setUp(self):
        super().setUp()
        self.write({
            "build/tests/unit_a": "#!/bin/sh\necho 'Running main()'\necho 'Suite.'\necho '  First'\necho '  Second/0  # GetParam() = 1'\n",
            "tests/vm/guest/calls.cpp": 'CASE("a call ends") {\n',
        })
        os.chmod("build/tests/unit_a", 0o755)

    def found(self, cell):
        self.write({promises.PAGE: f"# Trust\n\n{promises.HEADER}\n|---|---|\n| It holds | {cell} |\n\n| other | table |\n|---|---|\n| a | b |\n"})
        return promises.complaints("build")

    def test_names_that_exist_pass(self):
        for cell in ("`unit_a Suite.First`", "`unit_a Suite.First`, `…Second/*`", "`unit_a *.Second/0`, `Suite.*`", '`calls.cpp`: "a call ends"', "`tests/vm/guest/calls.cpp`"):
            self.assertEqual([], self.found(cell), cell)

    def test_a_test_a_program_a_file_or_a_sentence_that_is_not_there_fails(self):
        for cell, word in (("`unit_a Suite.Third`", "no test Suite.Third"), ("`unit_a Suite.First`, `…Third`", "no test Suite.*Third"),
                           ("`unit_b Suite.First`", "no program unit_b"), ("`Suite.First`", "no program before it"),
                           ("`tests/vm/guest/others.cpp`", "others.cpp"), ('`calls.cpp`: "a call ends", "it does not"', "it does not"),
                           ("", "no test is named"), ('"a call ends"', "no sentence")):
            found = self.found(cell)
            self.assertTrue(any(word in complaint for complaint in found), (cell, found))
            self.assertTrue(all(complaint.startswith(promises.PAGE + ":5: ") for complaint in found), found)

    def test_a_page_without_a_table_fails(self):
        self.write({promises.PAGE: "# Trust\n"})
        self.assertEqual(1, len(promises.complaints("build")))


if __name__ == "__main__":
    unittest.main(verbosity=0)
