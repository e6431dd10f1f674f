# ruff: noqa: E501 - outputs of programs are quoted as they are
"""How test runners, linters, type checkers and builds of the world print their results, for generated sessions."""

from typing import NamedTuple


class Check(NamedTuple):
    """A command with what it prints when it passes and when it fails. `{n}`, `{f}` and `{t}` are tests that pass, fail, and all."""

    command: str
    passes: str
    fails: str
    code: int = 1
    # A command that runs a selection, and what it prints.
    part: str = ""
    part_passes: str = ""
    # What a run prints that took its result from a cache.
    cached: str = ""


class Project(NamedTuple):
    """A project of one language."""

    name: str
    source: str
    test_file: str
    old: str
    new: str
    tests: Check
    lint: Check | None = None
    types: Check | None = None
    build: Check | None = None


_PYTEST_HEAD = "============================= test session starts ==============================\ncollected {t} items\n\n"

PYTEST = Check(
    "pytest",
    _PYTEST_HEAD + "tests/test_prices.py ........                                        [ 40%]\ntests/test_cart.py ............"
    "                                    [100%]\n\n============================== {n} passed in 1.84s ==============================",
    _PYTEST_HEAD + "tests/test_prices.py ...F....                                        [ 40%]\ntests/test_cart.py ............"
    "                                    [100%]\n\n=================================== FAILURES ===================================\n"
    "_______________________________ test_rounds_half_up _______________________________\n\n"
    "    def test_rounds_half_up():\n>       assert round_price('2.345') == '2.35'\nE       AssertionError: assert '2.34' == '2.35'\n\n"
    "tests/test_prices.py:41: AssertionError\n=========================== short test summary info ============================\n"
    "FAILED tests/test_prices.py::test_rounds_half_up - AssertionError: assert '2.34' == '2.35'\n"
    "========================= {f} failed, {n} passed in 1.91s =========================",
    part="pytest tests/test_prices.py -k rounds",
    part_passes="collected 8 items / 6 deselected / 2 selected\n\ntests/test_prices.py ..                                    [100%]\n\n"
    "======================= 2 passed, 6 deselected in 0.21s ========================",
)

GO = Check(
    "go test ./...",
    "ok  \texample.com/shop/cart\t0.412s\nok  \texample.com/shop/price\t0.088s\n?   \texample.com/shop/cmd\t[no test files]",
    "--- FAIL: TestRoundHalfUp (0.00s)\n    price_test.go:41: got 2.34, want 2.35\nFAIL\nFAIL\texample.com/shop/price\t0.091s\n"
    "ok  \texample.com/shop/cart\t0.402s\n?   \texample.com/shop/cmd\t[no test files]\nFAIL",
    part="go test ./price/ -run TestRound",
    part_passes="ok  \texample.com/shop/price\t0.061s",
    cached="ok  \texample.com/shop/cart\t(cached)\nok  \texample.com/shop/price\t(cached)\n?   \texample.com/shop/cmd\t[no test files]",
)

JEST = Check(
    "npm test",
    "> shop@1.4.0 test\n> jest\n\nPASS src/cart.test.ts\nPASS src/price.test.ts\n\nTest Suites: 2 passed, 2 total\n"
    "Tests:       {n} passed, {t} total\nSnapshots:   0 total\nTime:        2.114 s\nRan all test suites.",
    "> shop@1.4.0 test\n> jest\n\nFAIL src/price.test.ts\n  ● rounds half up\n\n    expect(received).toBe(expected)\n\n    Expected: 2.35\n"
    "    Received: 2.34\n\nPASS src/cart.test.ts\n\nTest Suites: 1 failed, 1 passed, 2 total\nTests:       {f} failed, {n} passed, {t} total\n"
    "Snapshots:   0 total\nTime:        2.208 s\nRan all test suites.",
    part="npx jest src/cart.test.ts",
    part_passes="PASS src/cart.test.ts\n\nTest Suites: 1 passed, 1 total\nTests:       4 passed, 4 total\nSnapshots:   0 total\n"
    "Time:        0.98 s\nRan all test suites matching /src\\/cart.test.ts/i.",
)

VITEST = Check(
    "npx vitest run",
    " RUN  v2.1.4 /home/dana/src/app\n\n ✓ src/price.test.ts (8 tests) 12ms\n ✓ src/cart.test.ts (6 tests) 9ms\n\n"
    " Test Files  2 passed (2)\n      Tests  {n} passed ({n})\n   Duration  812ms",
    " RUN  v2.1.4 /home/dana/src/app\n\n ❯ src/price.test.ts (8 tests | 1 failed) 15ms\n   × rounds half up 4ms\n"
    "     → expected 2.34 to be 2.35 // Object.is equality\n ✓ src/cart.test.ts (6 tests) 9ms\n\n"
    " Test Files  1 failed | 1 passed (2)\n      Tests  {f} failed | {n} passed ({t})\n   Duration  830ms",
    part="npx vitest run src/cart.test.ts",
    part_passes=" ✓ src/cart.test.ts (6 tests) 9ms\n\n Test Files  1 passed (1)\n      Tests  6 passed (6)\n   Duration  401ms",
)

CARGO = Check(
    "cargo test",
    "    Finished `test` profile [unoptimized + debuginfo] target(s) in 0.31s\n     Running unittests src/lib.rs (target/debug/deps/shop-1f2e)\n\n"
    "running {t} tests\ntest cart::tests::adds ... ok\ntest price::tests::rounds_half_up ... ok\n\n"
    "test result: ok. {n} passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.02s",
    "    Finished `test` profile [unoptimized + debuginfo] target(s) in 0.31s\n     Running unittests src/lib.rs (target/debug/deps/shop-1f2e)\n\n"
    "running {t} tests\ntest cart::tests::adds ... ok\ntest price::tests::rounds_half_up ... FAILED\n\nfailures:\n\n"
    "---- price::tests::rounds_half_up stdout ----\nthread 'price::tests::rounds_half_up' panicked at src/price.rs:41:9:\n"
    "assertion `left == right` failed\n  left: 234\n right: 235\n\n"
    "test result: FAILED. {n} passed; {f} failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.02s\n\nerror: test failed, to rerun pass `--lib`",
    code=101,
    part="cargo test cart::",
    part_passes="running 3 tests\ntest cart::tests::adds ... ok\n\n"
    "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0.01s",
)

MIX = Check(
    "mix test",
    "Running ExUnit with seed: 8412, max_cases: 16\n\n....................\nFinished in 0.2 seconds (0.1s async, 0.1s sync)\n{n} tests, 0 failures",
    "Running ExUnit with seed: 8412, max_cases: 16\n\n.......\n\n  1) test rounds half up (Shop.PriceTest)\n     test/shop/price_test.exs:41\n"
    "     Assertion with == failed\n     left:  2.34\n     right: 2.35\n\n............\nFinished in 0.2 seconds\n{t} tests, {f} failures",
    code=2,
    part="mix test test/shop/cart_test.exs",
    part_passes="Running ExUnit with seed: 11, max_cases: 16\n\n.....\nFinished in 0.05 seconds\n5 tests, 0 failures",
)

GRADLE = Check(
    "./gradlew test",
    "> Task :compileJava\n> Task :processResources NO-SOURCE\n> Task :compileTestJava\n> Task :test\n\nBUILD SUCCESSFUL in 4s\n4 actionable tasks: 4 executed",
    "> Task :compileJava UP-TO-DATE\n> Task :compileTestJava\n> Task :test FAILED\n\nPriceTest > roundsHalfUp() FAILED\n"
    "    org.opentest4j.AssertionFailedError at PriceTest.java:41\n\n{t} tests completed, {f} failed\n\nFAILURE: Build failed with an exception.\n\n"
    "* What went wrong:\nExecution failed for task ':test'.\n> There were failing tests. See the report at: build/reports/tests/test/index.html\n\nBUILD FAILED in 5s",
    part="./gradlew test --tests 'CartTest'",
    part_passes="> Task :compileJava UP-TO-DATE\n> Task :test\n\nBUILD SUCCESSFUL in 2s\n4 actionable tasks: 1 executed, 3 up-to-date",
    cached="> Task :compileJava UP-TO-DATE\n> Task :compileTestJava UP-TO-DATE\n> Task :test UP-TO-DATE\n\nBUILD SUCCESSFUL in 1s\n4 actionable tasks: 4 up-to-date",
)

MAVEN = Check(
    "mvn -q test",
    "[INFO] Tests run: {n}, Failures: 0, Errors: 0, Skipped: 0\n[INFO] BUILD SUCCESS",
    "[ERROR] Failures: \n[ERROR]   PriceTest.roundsHalfUp:41 expected: <2.35> but was: <2.34>\n[ERROR] Tests run: {t}, Failures: {f}, Errors: 0, Skipped: 0\n"
    "[INFO] BUILD FAILURE",
    part="mvn -q test -Dtest=CartTest",
    part_passes="[INFO] Tests run: 5, Failures: 0, Errors: 0, Skipped: 0\n[INFO] BUILD SUCCESS",
)

RSPEC = Check(
    "bundle exec rspec",
    "....................\n\nFinished in 0.41 seconds (files took 0.9 seconds to load)\n{n} examples, 0 failures",
    "....F...............\n\nFailures:\n\n  1) Price rounds half up\n     Failure/Error: expect(price.round).to eq(2.35)\n\n       expected: 2.35\n            got: 2.34\n\n"
    "Finished in 0.43 seconds (files took 0.9 seconds to load)\n{t} examples, {f} failures\n\nFailed examples:\n\nrspec ./spec/price_spec.rb:41 # Price rounds half up",
    part="bundle exec rspec spec/cart_spec.rb",
    part_passes=".....\n\nFinished in 0.11 seconds (files took 0.9 seconds to load)\n5 examples, 0 failures",
)

PHPUNIT = Check(
    "vendor/bin/phpunit",
    "PHPUnit 11.4.3 by Sebastian Bergmann and contributors.\n\n....................                                {n} / {n} (100%)\n\nTime: 00:00.112, Memory: 12.00 MB\n\n"
    "OK ({n} tests, 61 assertions)",
    "PHPUnit 11.4.3 by Sebastian Bergmann and contributors.\n\n....F...............                                {t} / {t} (100%)\n\nThere was 1 failure:\n\n"
    "1) PriceTest::testRoundsHalfUp\nFailed asserting that 2.34 matches expected 2.35.\n\nFAILURES!\nTests: {t}, Assertions: 61, Failures: {f}.",
    part="vendor/bin/phpunit --filter CartTest",
    part_passes="PHPUnit 11.4.3 by Sebastian Bergmann and contributors.\n\n.....                                     5 / 5 (100%)\n\nOK (5 tests, 11 assertions)",
)

DOTNET = Check(
    "dotnet test",
    "  Determining projects to restore...\n  Shop.Tests -> /home/dana/src/app/bin/Debug/net8.0/Shop.Tests.dll\n"
    "Passed!  - Failed:     0, Passed:    {n}, Skipped:     0, Total:    {n}, Duration: 88 ms - Shop.Tests.dll (net8.0)",
    "  Failed RoundsHalfUp [12 ms]\n  Error Message:\n   Assert.Equal() Failure: Values differ\nExpected: 2.35\nActual:   2.34\n"
    "Failed!  - Failed:     {f}, Passed:    {n}, Skipped:     0, Total:    {t}, Duration: 91 ms - Shop.Tests.dll (net8.0)",
    part="dotnet test --filter FullyQualifiedName~Cart",
    part_passes="Passed!  - Failed:     0, Passed:     5, Skipped:     0, Total:     5, Duration: 40 ms - Shop.Tests.dll (net8.0)",
)

TOX = Check(
    "tox",
    "py311: commands[0]> pytest -q\n....................                                                     [100%]\n{n} passed in 2.02s\n"
    "  py311: OK (4.11=setup[1.9]+cmd[2.21] seconds)\n  congratulations :) (4.20 seconds)",
    "py311: commands[0]> pytest -q\n....F...............                                                     [100%]\n"
    "FAILED tests/test_prices.py::test_rounds_half_up - AssertionError: assert '2.34' == '2.35'\n{f} failed, {n} passed in 2.10s\n"
    "py311: exit 1 (2.40 seconds) /home/dana/src/app> pytest -q pid=4121\n  py311: FAIL code 1 (4.3=setup[1.9]+cmd[2.4] seconds)\n  evaluation failed :( (4.41 seconds)",
    part="tox -e py311 -- tests/test_cart.py",
    part_passes="py311: commands[0]> pytest -q tests/test_cart.py\n.....                                              [100%]\n5 passed in 0.4s\n"
    "  py311: OK (2.1=setup[1.7]+cmd[0.4] seconds)\n  congratulations :) (2.2 seconds)",
)

RUFF = Check(
    "ruff check .",
    "All checks passed!",
    "src/shop/price.py:3:8: F401 [*] `decimal` imported but unused\nFound 1 error.\n[*] 1 fixable with the `--fix` option.",
)
MYPY = Check(
    "mypy src",
    "Success: no issues found in 14 source files",
    'src/shop/price.py:12: error: Incompatible return value type (got "float", expected "Decimal")  [return-value]\n'
    "Found 1 error in 1 file (checked 14 source files)",
)
ESLINT = Check(
    "npm run lint",
    "> shop@1.4.0 lint\n> eslint src --max-warnings 0\n",
    "> shop@1.4.0 lint\n> eslint src --max-warnings 0\n\n/home/dana/src/app/src/price.ts\n  3:10  error  'half' is defined but never used  no-unused-vars\n\n"
    "✖ 1 problem (1 error, 0 warnings)\n",
)
TSC = Check(
    "npx tsc --noEmit",
    "",
    "src/price.ts(12,3): error TS2322: Type 'number' is not assignable to type 'Money'.",
    code=2,
)
NPM_BUILD = Check(
    "npm run build",
    "> shop@1.4.0 build\n> vite build\n\nvite v5.4.10 building for production...\n✓ 41 modules transformed.\ndist/index.html  0.46 kB\n✓ built in 1.02s",
    "> shop@1.4.0 build\n> vite build\n\nvite v5.4.10 building for production...\nerror during build:\n"
    'src/cart.ts (4:9): "roundHalf" is not exported by "src/price.ts", imported by "src/cart.ts".',
)
GOLANGCI = Check(
    "golangci-lint run ./...",
    "0 issues.",
    "price/price.go:12:2: ineffectual assignment to err (ineffassign)\n\terr = parse(s)\n\t^\n1 issues:\n* ineffassign: 1",
)
GO_BUILD = Check("go build ./...", "", "# example.com/shop/price\nprice/price.go:12:9: undefined: roundHalf")
CLIPPY = Check(
    "cargo clippy -- -D warnings",
    "    Checking shop v0.1.0 (/home/dana/src/app)\n    Finished `dev` profile [unoptimized + debuginfo] target(s) in 0.61s",
    "    Checking shop v0.1.0 (/home/dana/src/app)\nerror: unneeded `return` statement\n  --> src/price.rs:12:5\n\n"
    "error: could not compile `shop` (lib) due to 1 previous error",
    code=101,
)
CARGO_BUILD = Check(
    "cargo build",
    "   Compiling shop v0.1.0 (/home/dana/src/app)\n    Finished `dev` profile [unoptimized + debuginfo] target(s) in 1.91s",
    "   Compiling shop v0.1.0 (/home/dana/src/app)\nerror[E0425]: cannot find function `round_half` in this scope\n  --> src/price.rs:12:5\n\n"
    "error: could not compile `shop` (lib) due to 1 previous error",
    code=101,
)
CREDO = Check(
    "mix credo --strict",
    "Checking 21 source files ...\n\nAnalysis took 0.3 seconds (0.04s to load, 0.2s running 66 checks on 21 files)\n88 mods/funs, found no issues.",
    "Checking 21 source files ...\n\n┃ [R] ↗ Modules should have a @moduledoc tag.\n┃       lib/shop/price.ex:1:11 #(Shop.Price)\n\n"
    "Analysis took 0.3 seconds\n88 mods/funs, found 1 code readability issue.",
    code=4,
)

PYTHON = Project(
    "python",
    "src/shop/price.py",
    "tests/test_prices.py",
    "    return str(round(value, 2))",
    "    return str(value.quantize(Decimal('0.01'), ROUND_HALF_UP))",
    PYTEST,
    RUFF,
    MYPY,
)
GO_PROJECT = Project(
    "go",
    "price/price.go",
    "price/price_test.go",
    "\treturn math.Floor(v*100) / 100",
    "\treturn math.Round(v*100) / 100",
    GO,
    GOLANGCI,
    None,
    GO_BUILD,
)
NODE = Project(
    "node",
    "src/price.ts",
    "src/price.test.ts",
    "  return Math.floor(v * 100) / 100",
    "  return Math.round((v + Number.EPSILON) * 100) / 100",
    JEST,
    ESLINT,
    TSC,
    NPM_BUILD,
)
VITE = NODE._replace(name="vite", tests=VITEST)
RUST = Project(
    "rust",
    "src/price.rs",
    "src/price.rs",
    "    (v * 100.0).floor() as i64",
    "    (v * 100.0).round() as i64",
    CARGO,
    CLIPPY,
    None,
    CARGO_BUILD,
)
ELIXIR = Project(
    "elixir", "lib/shop/price.ex", "test/shop/price_test.exs", "    Float.floor(value, 2)", "    Float.round(value, 2)", MIX, CREDO
)
JAVA = Project(
    "java",
    "src/main/java/shop/Price.java",
    "src/test/java/shop/PriceTest.java",
    "        return value.setScale(2, RoundingMode.DOWN);",
    "        return value.setScale(2, RoundingMode.HALF_UP);",
    GRADLE,
)
MAVEN_PROJECT = JAVA._replace(name="maven", tests=MAVEN)
RUBY = Project("ruby", "lib/price.rb", "spec/price_spec.rb", "    value.floor(2)", "    value.round(2, half: :up)", RSPEC)
PHP = Project(
    "php", "src/Price.php", "tests/PriceTest.php", "        return floor($v * 100) / 100;", "        return round($v, 2);", PHPUNIT
)
CSHARP = Project(
    "csharp",
    "src/Price.cs",
    "tests/PriceTests.cs",
    "        => Math.Floor(v * 100) / 100;",
    "        => Math.Round(v, 2, MidpointRounding.AwayFromZero);",
    DOTNET,
)
MAKE = PYTHON._replace(
    name="make",
    tests=PYTEST._replace(
        command="make test",
        passes="python -m pytest -q\n....................                                                     [100%]\n{n} passed in 1.71s",
        fails="python -m pytest -q\n....F...............                                                     [100%]\n"
        "FAILED tests/test_prices.py::test_rounds_half_up - AssertionError: assert '2.34' == '2.35'\n{f} failed, {n} passed in 1.80s\n"
        "make: *** [Makefile:12: test] Error 1",
        code=2,
    ),
)
MISE = GO_PROJECT._replace(
    name="mise",
    tests=GO._replace(
        command="mise run test",
        passes="[test] $ go test ./...\n" + GO.passes,
        fails="[test] $ go test ./...\n" + GO.fails + "\n[test] ERROR task failed",
    ),
    lint=GOLANGCI._replace(
        command="mise run lint",
        passes="[lint] $ golangci-lint run ./...\n0 issues.",
        fails="[lint] $ golangci-lint run ./...\n" + GOLANGCI.fails + "\n[lint] ERROR task failed",
    ),
)
TOX_PROJECT = PYTHON._replace(name="tox", tests=TOX)
UV = PYTHON._replace(
    name="uv", tests=PYTEST._replace(command="uv run pytest", part="uv run pytest tests/test_prices.py::test_rounds_half_up")
)

PROJECTS = (
    PYTHON, GO_PROJECT, NODE, VITE, RUST, ELIXIR, JAVA, MAVEN_PROJECT, RUBY, PHP, CSHARP, MAKE, MISE, TOX_PROJECT, UV,
)  # fmt: skip
BY_NAME = {project.name: project for project in PROJECTS}
