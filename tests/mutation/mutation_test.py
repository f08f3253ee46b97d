#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the mutation tool: what it finds in sources, what it draws, how it runs what may hang."""
import importlib.machinery
import importlib.util
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import cpp_text  # noqa: E402
import mutations  # noqa: E402
from copied_tree import CopiedTree, Test  # noqa: E402
from fence import Fence  # noqa: E402

_LOADER = importlib.machinery.SourceFileLoader("mutate", os.path.join(os.path.dirname(os.path.realpath(__file__)), "mutate"))
mutate = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", _LOADER))
_LOADER.exec_module(mutate)


def all_of(text):
    return [m for line in mutations.of_text("a.cpp", text).values() for m in line]


def body(statements):
    """The mutations of statements in a function: as (kind, mutated text, replacement)."""
    head = "int f() {\n"
    text = head + statements + "\n  return 0;\n}\n"
    return {(m.kind, text[m.start:m.end], m.new) for m in all_of(text) if m.end <= len(head + statements)}


def statements_of(text):
    code = cpp_text.blank(text)
    return [" ".join(code[s.start:s.end].split()) for s in cpp_text.statements(code)]


class Blank(unittest.TestCase):
    def test_removes_comments_strings_and_directives_and_moves_nothing(self):
        text = "#define A(x) \\\n  if (x) {\nint a; // { \"b\nauto b = \"{ // \\\" \" /* } */ + '\"' + R\"x({\")\" )x\" + 1'000;\n"
        code = cpp_text.blank(text)
        self.assertEqual(len(code), len(text))
        self.assertEqual([at for at, c in enumerate(code) if c == "\n"], [at for at, c in enumerate(text) if c == "\n"])
        self.assertNotIn("{", code)
        self.assertNotIn("}", code)
        self.assertIn("1'000;", code)
        self.assertTrue(code.startswith(" " * len("#define A(x) \\") + "\n"))


class Statements(unittest.TestCase):
    def test_are_in_functions_only(self):
        self.assertEqual(statements_of("""
            namespace a { constexpr int kB = 1; enum class E : int { kOne = 1, kTwo };
            struct S { int x = 3; int y{4}; int get() const { return x; } };
            template <class T, class U = std::vector<T>> struct V final : B<T> { int z; };
            static const int table[] = {1, 2, 3};
            S::S(int v) : x(v), y{v} { start(); }
            auto f(int v) -> Result<int> { go(v); }
            }
            extern "C" int g(struct stat* s) { return 2; }
            extern "C" { int h(); }
            """), ["return x;", "start();", "go(v);", "return 2;"])

    def test_of_lambdas_count_once_more(self):
        self.assertEqual(statements_of("void f() { each([&](int x) { use(x); }, S{1, {2}}); done(); }"),
                         ["each([&](int x) { use(x); }, S{1, {2}});", "use(x);", "done();"])

    def test_of_a_lambda_that_is_assigned_or_returned(self):
        self.assertEqual(statements_of("auto f() { const auto g = [a = b[0]] { one(); };"
                                       "return [](int (&x)[2]) mutable -> int { two(); }; }"),
                         ["const auto g = [a = b[0]] { one(); };", "one();",
                          "return [](int (&x)[2]) mutable -> int { two(); };", "two();"])

    def test_begin_behind_heads(self):
        code = cpp_text.blank("void f() { if (a[i](x)) { b(); } else if (c) d(); switch (e) { case A::kB: case 'c': g(); default: h(); } "
                              "for (int x : {1, 2}) do i(); while (x < 3); }")
        cores = [code[cpp_text.core(code, s):s.end].strip() for s in cpp_text.statements(code)]
        self.assertEqual(cores, ["", "b();", "d();", "", "g();", "h();", "i();", ";"])


class Mutations(unittest.TestCase):
    def test_flip_comparisons_but_no_template(self):
        self.assertEqual({m for m in body("x = a < b && g<int>(c) >= std::vector<std::pair<int, int>>::d;")
                          if m[0] == "comparison"},
                         {("comparison", "<", "<="), ("comparison", "<", ">="), ("comparison", ">=", ">"), ("comparison", ">=", "<")})

    def test_swap_operators(self):
        found = body("a += b + c; ++d; e = f && g || h; k = std::min(l, m);")
        for kind, old, new in (("plus/minus", "+=", "-="), ("plus/minus", "+", "-"), ("plus/minus", "++", "--"),
                               ("and/or", "&&", "||"), ("and/or", "||", "&&"), ("min/max", "min", "max")):
            self.assertIn((kind, old, new), found)

    def test_leave_references_shifts_and_signs_alone(self):
        self.assertEqual({m[0] for m in body("for (auto&& [k, v] : all) out << -k;")}, {"dropped statement"})
        self.assertEqual({m[0] for m in body('name = a + "b";')}, {"dropped statement"})

    def test_change_integers_by_one_in_their_base(self):
        self.assertEqual({(m[1], m[2]) for m in body("return g(0, 15u, 0xFFull, 0644, 1.5, 2e3, h<3>(), 7s, seconds(5));")
                          if m[0] == "off by one"},
                         {("0", "1"), ("15u", "16u"), ("15u", "14u"), ("0xFFull", "0x100ull"), ("0xFFull", "0xFEull"),
                          ("0644", "0645"), ("0644", "0643")})
        self.assertEqual(body("char text[64];"), set())

    def test_negate_conditions(self):
        self.assertEqual({m[2] for m in body("if (a) b(); else if (auto c = d(); c > (e)) f();\nwhile (true) while (g()) h();")
                          if m[0] == "negated condition"}, {"!(a)", "!(c > (e))", "!(g())"})
        self.assertNotIn("negated condition", {m[0] for m in body("if (const auto* x = y()) z();")})

    def test_drop_statements_but_no_declaration(self):
        dropped = {m[1] for m in body("""a = 1;\n const int b = c();\n std::vector<int> d(3);\n e->f();\n Type g = h;\n Type& i = j;
            NEURON_CHECK(k());\n NEURON_TRY(l, m());\n (void)n();\n for (;;) break;\n *o = p;\n ++q;\n auto r{s};\n Type<int>* t = u;""")
                   if m[0] == "dropped statement"}
        self.assertEqual(dropped, {"a = 1;", "e->f();", "NEURON_CHECK(k());", "(void)n();", "break;", "*o = p;", "++q;"})

    def test_leave_the_break_behind_which_a_switch_ends(self):
        text = """switch (f(a)) {
            case 1: g(); break;
            case 2: for (;;) break;
            case 3: if (b) { break; }
            default: h();
              break;
          }
          while (c) { i(); break; }
          switch (d) { case 4: break; }
          switch (e) { case 5: for (;;) break; }"""
        found = sorted((m.line, m.kind) for m in all_of("void f() {\n" + text + "\n}\n") if m.kind == "dropped statement")
        breaks = [line for line, _ in found]
        self.assertNotIn(7, breaks)
        self.assertNotIn(10, breaks)
        for line in (3, 4, 5, 9, 11):
            self.assertIn(line, breaks)

    def test_remove_early_returns_only(self):
        text = "int f() {\n  if (a) return 1;\n  if (b) {\n    return 2;\n  }\n  return 3;\n}\n"
        self.assertEqual({text[m.start:m.end] for m in all_of(text) if m.kind == "return removed"}, {"return 1;", "return 2;"})

    def test_leave_sentences_of_the_log_and_static_assertions_alone(self):
        self.assertEqual(body('log_error(kNrt, "x", a + 1); static_assert(a == 1); if_.log(2); using B = C<1>; v.reserve(3);\n(void)a;'),
                         set())
        self.assertEqual(body('base::log(kNrt, "x", a + 1);'), set())

    def test_keep_the_number_of_lines(self):
        text = "void f() {\n  if (a)\n    call(b,\n         c);\n  d();\n}\n"
        for mutation in all_of(text):
            self.assertEqual(mutation.apply(text).count("\n"), text.count("\n"))
        (dropped,) = [m for m in all_of(text) if m.kind == "dropped statement" and m.line == 3]
        self.assertEqual(dropped.lines(text), (["    call(b,", "         c);"], ["    ;"]))

    def test_are_drawn_alike_from_one_seed_and_never_twice(self):
        texts = {"a.cpp": "void f() {\n  a = b + 1;\n  c();\n}\n", "b.cpp": "void g() {\n  if (x < 2) y();\n}\n"}

        def draw(seed):
            drawing = mutations.Drawing(texts, seed)
            return [mutation for mutation in iter(drawing.next, None)]
        self.assertEqual(draw(1), draw(1))
        self.assertNotEqual(draw(1), draw(2))
        self.assertEqual(len(draw(1)), len(set(draw(1))))
        self.assertEqual(len(draw(1)), sum(len(all_of(text)) for text in texts.values()))


class Fences(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(dir=os.getcwd())
        self.addCleanup(self.folder.cleanup)
        self.fence = Fence([self.folder.name])

    def run_in(self, script, seconds=10.0, **more):
        return self.fence.run(["sh", "-c", script], seconds, self.folder.name, **more)

    def test_say_how_a_command_ended(self):
        self.assertEqual(self.run_in("exit 3").status, 3)
        self.assertEqual(self.run_in("kill -ABRT $$").status, 128 + 6)
        self.assertEqual(self.run_in("echo $A; pwd", environment={"A": "b"}).tail.split(), ["b", os.path.realpath(self.folder.name)])

    def test_end_what_hangs_with_all_that_it_started(self):
        ended = self.run_in("(sleep 50; touch late) & echo '[ RUN      ] A.B'; sleep 50", 0.5)
        self.assertIsNone(ended.status)
        self.assertEqual(ended.how(), "time limit in A.B")
        self.assertLess(ended.seconds, 5)

    def test_do_not_wait_for_what_a_command_leaves_behind(self):
        self.assertEqual(self.run_in("sleep 50 & exit 0", 20).status, 0)

    def test_read_which_test_failed(self):
        ended = self.run_in("echo '[       OK ] A.B (0 ms)'; echo '[  FAILED  ] A.C/1, where GetParam() = 2 (5 ms)';"
                            "echo '[  FAILED  ] 1 test, listed below:'; echo '[  FAILED  ] A.C/1'; exit 1")
        self.assertEqual(ended.failed, ["A.C/1"])
        self.assertEqual(ended.how(), "A.C/1")

    def test_survive_much_output(self):
        self.assertEqual(self.run_in("head -c 50000000 /dev/zero; echo; echo end").tail.split()[-1], "end")

    def test_limit_memory(self):
        self.assertNotEqual(self.run_in(f"'{sys.executable}' -c 'bytearray(3 << 30)'", memory_gib=1).status, 0)

    def test_keep_commands_from_other_folders(self):
        if not self.fence.closed():
            print(f"skipped: {self.id()}: this host gives no namespaces", flush=True)
            self.skipTest("this host gives no namespaces")
        self.assertEqual(self.run_in("touch here").status, 0)
        outside = os.path.join(os.getcwd(), "written-by-a-mutation")
        self.assertNotEqual(self.run_in(f"touch '{outside}'").status, 0)
        self.assertFalse(os.path.exists(outside))
        self.assertNotEqual(self.run_in(f"kill -0 {os.getpid()}").status, 0)
        self.assertEqual(self.run_in("touch /tmp/written-by-a-mutation").status, 0)
        self.assertFalse(os.path.exists("/tmp/written-by-a-mutation"))


class Copies(unittest.TestCase):
    def test_follow_the_tree_and_touch_only_what_differs(self):
        with tempfile.TemporaryDirectory(dir=os.getcwd()) as folder:
            origin = os.path.join(folder, "origin")
            os.makedirs(os.path.join(origin, "sub"))
            for name, text in (("a", "1"), ("sub/b", "2"), (".gitignore", "ignored")):
                with open(os.path.join(origin, name), "w", encoding="utf-8") as file:
                    file.write(text)
            os.system(f"git -C '{origin}' init -q")
            tree = CopiedTree(origin, os.path.join(folder, "copy"), 1)
            tree.synchronize()
            before = os.stat(os.path.join(tree.source, "a")).st_mtime_ns
            tree.write("sub/b", "mutated")
            tree.write("more", "left behind")
            tree.synchronize()
            self.assertEqual(os.stat(os.path.join(tree.source, "a")).st_mtime_ns, before)
            with open(os.path.join(tree.source, "sub/b"), encoding="utf-8") as file:
                self.assertEqual(file.read(), "2")
            self.assertFalse(os.path.exists(os.path.join(tree.source, "more")))

    def test_tell_what_does_not_compile_from_what_is_built(self):
        with tempfile.TemporaryDirectory(dir=os.getcwd()) as folder:
            origin = os.path.join(folder, "origin")
            os.makedirs(origin)
            for name, text in (("CMakeLists.txt", "cmake_minimum_required(VERSION 3.25)\nproject(p C)\nadd_compile_options(-Wall)\n"
                                "add_executable(program main.c)\n"),
                               ("CMakePresets.json", '{"version": 3, "configurePresets": [{"name": "default", "generator": "Ninja", '
                                '"binaryDir": "${sourceDir}/build"}]}'),
                               ("main.c", "int f(void) { return 1; }\nint main(void) { return f(); }\n")):
                with open(os.path.join(origin, name), "w", encoding="utf-8") as file:
                    file.write(text)
            os.system(f"git -C '{origin}' init -q")
            tree = CopiedTree(origin, os.path.join(folder, "copy"), 1)
            tree.synchronize()
            tree.configure()
            tree.build(["program"])
            for text, outcome in (("int f(void) { return 2; }\nint main(void) { return f(); }\n", "built"),
                                  ("int f(void) { ; }\nint main(void) { return f(); }\n", "does not compile"),
                                  ("int main(void) { return f(; }\n", "does not compile"),
                                  ("int f(void);\nint main(void) { return f(); }\n", "does not compile"),
                                  ("int main(void) { return 3; }\n", "built")):
                tree.write("main.c", text)
                self.assertEqual(tree.build_mutated(["program"], 60), outcome, text)
            tree.synchronize()
            self.assertTrue(os.path.exists(os.path.join(tree.build_folder, "program")), "the build stays")


class Ranks(unittest.TestCase):
    def test_put_the_tests_of_a_folder_first(self):
        def test(name, seconds, *sources):
            found = Test(name, [], {}, "", 60, [])
            found.sources, found.seconds = set(sources), seconds
            return found
        tests = [test("quick", 0.1, "tests/system/async/load_test.cpp"), test("api", 9, "tests/system/api/tensor_test.cpp"),
                 test("unit", 5, "tests/unit/runtime/exec/executor_test.cpp"), test("own", 7, "tests/unit/runtime/api/tensor_api_test.cpp"),
                 test("near", 6, "tests/unit/runtime/api/nec_api_test.cpp")]
        ordered = sorted(tests, key=lambda test: mutate.rank(test, "runtime/api/tensor_api.cpp"))
        self.assertEqual([test.name for test in ordered], ["own", "near", "api", "unit", "quick"])


if __name__ == "__main__":
    unittest.main()
