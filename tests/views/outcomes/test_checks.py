# ruff: noqa: E501 - a row of a table is easier to read on one line
"""Results of checks: tables of command, output and exit code."""

from datetime import UTC, datetime

import pytest

from fleetlore.views.outcomes.check_commands import find_checks
from fleetlore.views.outcomes.commands import read_call
from fleetlore.views.outcomes.facts import CheckRun, Source, ToolCall
from fleetlore.views.outcomes.shell import parse_script


def run(command: str, output: str = "", code: int | None = 0, *, description: str = "", background: bool = False) -> tuple[CheckRun, ...]:
    call = ToolCall(
        step=1,
        turn=1,
        at=datetime(2026, 1, 2, tzinfo=UTC),
        source=Source("e1", "call-1"),
        kind="command",
        tool="Bash",
        state="ok" if code == 0 else "failed",
        command=command,
        description=description,
        cwd="/home/dev/shop",
        background=background,
        exit_code=code,
        output=output,
    )
    return read_call(call).checks


def results(command: str, output: str = "", code: int | None = 0) -> list[tuple[str, str]]:
    return [(check.kind, check.result) for check in run(command, output, code)]


KINDS = [
    ("pytest -q", "tests"),
    ("python -m pytest tests", "tests"),
    ("Invoke-Pester -Path tests -Output Minimal", "tests"),
    ("nimble test", "tests"),
    ("python3.12 -m unittest discover -s tests", "tests"),
    ("python manage.py test", "tests"),
    ("uv run --with hypothesis pytest", "tests"),
    ("poetry run pytest -x", "tests"),
    ("hatch run test", "tests"),
    ("pdm run test", "tests"),
    ("nox -s tests-3.12", "tests"),
    ("tox -e py311", "tests"),
    ("tox -e lint", "lint"),
    ("go test ./...", "tests"),
    ("gotestsum ./...", "tests"),
    ("go vet ./...", "lint"),
    ("go build ./...", "build"),
    ("go test -c -o /dev/null ./e2e", "build"),
    ("rtk test bun run test", "tests"),
    ("rtk lint bun run lint", "lint"),
    ("go tool golangci-lint run", "lint"),
    ("go run honnef.co/go/tools/cmd/staticcheck@latest ./...", "lint"),
    ("cargo test --workspace", "tests"),
    ("cargo nextest run", "tests"),
    ("cargo +nightly clippy --all-targets -- -D warnings", "lint"),
    ("cargo fmt --all --check", "lint"),
    ("cargo check", "types"),
    ("npm test", "tests"),
    ("npm t", "tests"),
    ("npm run test:unit", "tests"),
    ("npm run lint", "lint"),
    ("npm run format:check", "lint"),
    ("npm run type-check", "types"),
    ("npm --prefix web run build", "build"),
    ("pnpm -r test", "tests"),
    ("pnpm --filter web typecheck", "types"),
    ("pnpm exec eslint .", "lint"),
    ("yarn lint", "lint"),
    ("yarn workspace api test", "tests"),
    ("yarn vitest run", "tests"),
    ("bun test", "tests"),
    ("bun run build", "build"),
    ("bunx biome check .", "lint"),
    ("npx tsc --noEmit", "types"),
    ("npx playwright test", "tests"),
    ("./node_modules/.bin/jest", "tests"),
    ("deno task test", "tests"),
    ("deno lint", "lint"),
    ("turbo run test", "tests"),
    ("nx run-many -t lint", "lint"),
    ("nx run shop:test", "tests"),
    ("make test", "tests"),
    ("make -C backend -j4 lint", "lint"),
    ("just test", "tests"),
    ("task lint", "lint"),
    ("mise run test:ci", "tests"),
    ("mise lint", "lint"),
    ("mix test", "tests"),
    ("MIX_ENV=test mix coveralls", "tests"),
    ("mix credo --strict", "lint"),
    ("mix dialyzer", "types"),
    ("mix format --check-formatted", "lint"),
    ("mix compile --warnings-as-errors", "build"),
    ("./gradlew test", "tests"),
    ("gradle spotlessCheck", "lint"),
    ("./gradlew assembleDebug", "build"),
    ("mvn -B test", "tests"),
    ("./mvnw -q -DskipTests package", "build"),
    ("sbt test", "tests"),
    ("dotnet test", "tests"),
    ("dotnet build -c Release", "build"),
    ("dotnet format --verify-no-changes", "lint"),
    ("swift test", "tests"),
    ("xcodebuild test -scheme Shop", "tests"),
    ("ctest --output-on-failure", "tests"),
    ("cmake --build build", "build"),
    ("bazel test //...", "tests"),
    ("bats test", "tests"),
    ("bundle exec rspec", "tests"),
    ("bin/rails test", "tests"),
    ("rake spec", "tests"),
    ("bundle exec rubocop", "lint"),
    ("vendor/bin/phpunit", "tests"),
    ("composer test", "tests"),
    ("composer run phpstan", "lint"),
    ("php artisan test", "tests"),
    ("flutter analyze", "lint"),
    ("dart test", "tests"),
    ("zig build test", "tests"),
    ("pre-commit run --all-files", "lint"),
    ("ruff check .", "lint"),
    ("ruff format --check .", "lint"),
    ("black --check src", "lint"),
    ("prettier --check .", "lint"),
    ("gofmt -l .", "lint"),
    ("mypy src", "types"),
    ("pyright", "types"),
    ("./scripts/test.sh", "tests"),
    ("bash scripts/lint.sh", "lint"),
    ("docker compose exec -T web pytest", "tests"),
    ("docker run --rm -v x:/x image make test", "tests"),
    ("timeout 300 env CI=1 nice -n 5 make test", "tests"),
    ("bash -lc 'cd api && go test ./...'", "tests"),
    ("direnv exec . make lint", "lint"),
    ("mise exec -- go test ./...", "tests"),
    ("nix develop -c cargo test", "tests"),
    ("find . -name '*.sh' | xargs shellcheck", "lint"),
    ("coverage run -m pytest", "tests"),
    ("./vendor/bin/sail test", "tests"),
    ("Rscript -e 'devtools::test()'", "tests"),
    ("julia --project -e 'using Pkg; Pkg.test()'", "tests"),
    ("cargo make lint", "lint"),
    ("fvm flutter test", "tests"),
    ("ninja -C build test", "tests"),
    ("cargo tauri build", "build"),
    ("docker compose build", "build"),
    ("idf.py build", "build"),
    ("eas build --platform ios", "build"),
]


@pytest.mark.parametrize(("command", "kind"), KINDS)
def test_a_check_is_known_by_its_program_or_task(command: str, kind: str) -> None:
    found = [check.kind for simple in parse_script(command) for check in find_checks(simple.words)]
    assert found == [kind]


NO_CHECKS = """
gofmt -w .
prettier --write src
mise run fmt
cargo fmt
ruff format .
mix format
black src
npm run format
npm run dev
npm run test:watch
npm install
npm ci
pytest --collect-only
pytest --version
go test -list .
jest --watch
make -n test
git status
grep -rn pytest .
cat Makefile
echo npm test
golangci-lint version
docker compose up -d
cargo add serde
which pytest
command -v golangci-lint
npm view vitest
pip install pytest
mise install
git commit -m 'make test pass'
""".strip().splitlines()


@pytest.mark.parametrize("command", NO_CHECKS)
def test_other_commands_are_no_checks(command: str) -> None:
    assert run(command, "fine") == ()


@pytest.mark.parametrize(
    ("command", "whole"),
    [
        ("pytest", True),
        ("pytest -q -n 4 -p no:cacheprovider", True),
        ("pytest tests/", True),
        ("pytest tests/test_cart.py", False),
        ("pytest -k cart", False),
        ("pytest --lf", False),
        ("go test ./...", True),
        ("go test -race -count=1 ./...", True),
        ("go test ./cart/...", False),
        ("go test ./... -run TestCart", False),
        ("cargo test", True),
        ("cargo test --workspace --all-features", True),
        ("cargo test -p cart", False),
        ("cargo test cart::", False),
        ("npx jest src/cart.test.ts", False),
        ("npx jest -t 'adds an item'", False),
        ("npm test -- --testNamePattern=cart", False),
        ("npm test", True),
        ("mvn test -Dtest=CartTest", False),
        ("./gradlew :cart:test", False),
        ("./gradlew test --tests CartTest", False),
        ("dotnet test --filter Cart", False),
        ("bundle exec rspec spec/cart_spec.rb:12", False),
        ("mix test test/cart_test.exs", False),
        ("vendor/bin/phpunit --filter testCart", False),
        ("golangci-lint run ./cart/...", False),
        ("golangci-lint run", True),
        ("mise run test", True),
        ("mypy app tests", True),
        ("ruff check app/cart.py", False),
    ],
)
def test_a_selection_is_not_the_whole(command: str, whole: bool) -> None:
    assert [check.whole for simple in parse_script(command) for check in find_checks(simple.words)] == [whole]


# (command, output, result, counts): the exit code is masked by a pipe, so that only the summary counts.
SUMMARIES = [
    ("$r = Invoke-Pester -PassThru -Output None; \"x\"", "scripts: 24 passed / 0 failed / 24 total", "pass", "24 passed / 0 failed"),
    ("Invoke-Pester -Path tests | tail -1", "Tests Passed: 3, Failed: 1, Skipped: 0", "fail", "3, Failed: 1"),
    ("npm test | tail -1", "1 test failed.", "fail", "1 test failed"),
    ("pytest", "..F\n=========== 1 failed, 2 passed in 0.12s ===========", "fail", "1 failed, 2 passed"),
    ("pytest -q", "...\n3 passed, 1 skipped in 0.05s", "pass", "3 passed, 1 skipped"),
    ("pytest -q", "3 passed, 2 warnings in 61.20s (0:01:01)", "pass", "3 passed, 2 warnings"),
    ("pytest", "== 2 errors in 0.30s ==", "fail", "2 errors"),
    ("pytest", "== 1 passed, 1 error in 0.30s ==", "fail", "1 passed, 1 error"),
    ("pytest -k nothing", "====== no tests ran in 0.01s ======", "could_not_run", ""),
    ("pytest -k nothing", "====== 12 deselected in 0.01s ======", "could_not_run", ""),
    ("python -m unittest", "Ran 4 tests in 0.001s\n\nOK", "pass", ""),
    ("python -m unittest", "Ran 4 tests in 0.001s\n\nFAILED (failures=1)", "fail", "failures=1"),
    ("python -m unittest", "Ran 0 tests in 0.000s\n\nNO TESTS RAN", "could_not_run", ""),
    ("go test ./...", "ok  \tshop/cart\t0.01s\nok  \tshop/user\t(cached)", "pass", "2 packages ok"),
    ("go test ./...", "--- FAIL: TestCart (0.00s)\nFAIL\nFAIL\tshop/cart\t0.01s\nok  \tshop/user\t0.1s\nFAIL", "fail", "1 package ok, 1 failed"),
    ("go test ./cart", "?   \tshop/cart\t[no test files]", "could_not_run", ""),
    ("go test ./cart", "FAIL\tshop/cart [build failed]\nFAIL", "fail", "0 packages ok, 1 failed"),
    ("go test -run Nope ./cart", "ok  \tshop/cart\t0.2s [no tests to run]", "could_not_run", ""),
    ("gotestsum", "DONE 12 tests, 1 failure in 0.5s", "fail", "12 tests, 1 failure"),
    ("cargo test", "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s", "pass", "5 passed; 0 failed; 1 ignored"),
    ("cargo test", "test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured", "fail", "4 passed; 1 failed; 0 ignored"),
    ("cargo test", "error[E0308]: mismatched types\nerror: could not compile `shop` (lib test) due to 1 previous error", "fail", ""),
    ("cargo nextest run", "     Summary [   0.05s] 9 tests run: 8 passed, 1 failed, 2 skipped", "fail", "9 tests run: 8 passed, 1 failed, 2 skipped"),
    ("npx jest", "Test Suites: 1 failed, 1 passed, 2 total\nTests:       1 failed, 4 passed, 5 total", "fail", "1 failed, 4 passed, 5 total"),
    ("npx jest", "Test Suites: 2 passed, 2 total\nTests:       5 passed, 5 total\nSnapshots:   0 total", "pass", "5 passed, 5 total"),
    ("npx vitest run", " Test Files  2 passed (2)\n      Tests  7 passed | 1 skipped (8)", "pass", "7 passed | 1 skipped (8)"),
    ("npx vitest run", " Test Files  1 failed | 1 passed (2)\n      Tests  1 failed | 7 passed (8)", "fail", "1 failed | 7 passed (8)"),
    ("npx vitest run x", "No test files found, exiting with code 1", "could_not_run", ""),
    ("npx mocha", "  7 passing (12ms)\n  1 failing", "fail", "1 failing"),
    ("npx mocha", "  7 passing (12ms)\n  2 pending", "pass", "7 passing"),
    ("npx ava", "  3 tests passed", "pass", "3 tests passed"),
    ("npx ava", "  1 test failed", "fail", "1 test failed"),
    ("node --test", "# tests 3\n# pass 3\n# fail 0", "pass", "pass 3"),
    ("node --test", "ℹ tests 3\nℹ pass 2\nℹ fail 1", "fail", "fail 1"),
    ("bun test", " 12 pass\n 0 fail\nRan 12 tests across 3 files.", "pass", "12 pass"),
    ("bun test", " 11 pass\n 1 fail", "fail", "11 pass, 1 fail"),
    ("deno test", "ok | 5 passed | 0 failed (12ms)", "pass", "5 passed | 0 failed"),
    ("npx playwright test", "  2 failed\n    [chromium] › cart.spec.ts:3:1 › adds\n  10 passed (5.1s)", "fail", "2 failed"),
    ("npx playwright test", "  10 passed (5.1s)", "pass", "10 passed"),
    ("mix test", "Finished in 0.2 seconds\n3 doctests, 12 tests, 0 failures", "pass", "3 doctests, 12 tests, 0 failures"),
    ("mix test", "12 tests, 2 failures, 1 excluded", "fail", "12 tests, 2 failures, 1 excluded"),
    ("mix test", "== Compilation error in file lib/cart.ex ==", "fail", ""),
    ("bundle exec rspec", "8 examples, 1 failure, 1 pending", "fail", "8 examples, 1 failure, 1 pending"),
    ("bundle exec rspec", "8 examples, 0 failures", "pass", "8 examples, 0 failures"),
    ("rails test", "9 runs, 20 assertions, 0 failures, 1 errors, 0 skips", "fail", "9 runs, 20 assertions, 0 failures, 1 errors, 0 skips"),
    ("rails test", "9 runs, 20 assertions, 0 failures, 0 errors, 0 skips", "pass", "9 runs, 20 assertions, 0 failures, 0 errors, 0 skips"),
    ("vendor/bin/phpunit", "OK (5 tests, 9 assertions)", "pass", "5 tests, 9 assertions"),
    ("vendor/bin/phpunit", "FAILURES!\nTests: 5, Assertions: 9, Failures: 1.", "fail", "Tests: 5, Assertions: 9, Failures: 1"),
    ("php artisan test", "  Tests:    1 failed, 8 passed (20 assertions)", "fail", "1 failed, 8 passed"),
    ("php artisan test", "  Tests:    8 passed (20 assertions)", "pass", "8 passed"),
    ("mvn test", "[INFO] Tests run: 6, Failures: 0, Errors: 0, Skipped: 1\n[INFO] BUILD SUCCESS", "pass", "Tests run: 6, Failures: 0, Errors: 0, Skipped: 1"),
    ("mvn test", "[ERROR] Tests run: 6, Failures: 1, Errors: 0, Skipped: 0\n[INFO] BUILD FAILURE", "fail", "Tests run: 6, Failures: 1, Errors: 0, Skipped: 0"),
    ("./gradlew test", "> Task :test FAILED\n6 tests completed, 1 failed\nBUILD FAILED in 2s", "fail", "6 tests completed, 1 failed"),
    ("./gradlew test", "BUILD SUCCESSFUL in 3s\n4 actionable tasks: 4 executed", "pass", ""),
    ("make check", "# TOTAL: 3\n# PASS:  2\n# FAIL:  1", "fail", "# FAIL: 1"),
    ("dotnet test", "Passed!  - Failed:     0, Passed:     7, Skipped:     0, Total:     7", "pass", "Failed: 0, Passed: 7"),
    ("dotnet test", "Failed!  - Failed:     1, Passed:     6, Skipped:     0, Total:     7", "fail", "Failed: 1, Passed: 6"),
    ("swift test", "\t Executed 5 tests, with 1 failure (0 unexpected) in 0.1 seconds", "fail", "5 tests, with 1 failure"),
    ("ctest", "100% tests passed, 0 tests failed out of 9", "pass", "100% tests passed, 0 tests failed out of 9"),
    ("ctest", "89% tests passed, 1 tests failed out of 9", "fail", "89% tests passed, 1 tests failed out of 9"),
    ("bats test", "1..2\nok 1 adds\nnot ok 2 removes", "fail", ""),
    ("bats test", "5 tests, 0 failures", "pass", "5 tests, 0 failures"),
    ("bazel test //...", "Executed 2 out of 2 tests: 2 tests pass.", "pass", "2 tests pass"),
    ("dart test", "00:01 +5: All tests passed!", "pass", ""),
    ("golangci-lint run", "0 issues.", "pass", "0 issues"),
    ("golangci-lint run", "cart.go:3:1: bad (revive)\n1 issues:\n* revive: 1", "fail", "1 issues"),
    ("npx eslint .", "\n✖ 3 problems (2 errors, 1 warning)\n", "fail", "3 problems (2 errors, 1 warning)"),
    ("npx eslint .", "\n✖ 1 problem (0 errors, 1 warning)\n", "pass", "1 problem (0 errors, 1 warning)"),
    ("ruff check .", "All checks passed!", "pass", ""),
    ("ruff check .", "cart.py:1:8: F401 unused import\nFound 1 error.", "fail", "1 error"),
    ("ruff format --check .", "Would reformat: cart.py\n1 file would be reformatted, 3 files already formatted", "fail", "1 file would be reformatted"),
    ("black --check .", "All done! ✨ 🍰 ✨\n4 files would be left unchanged.", "pass", "4 files would be left unchanged"),
    ("flake8", "cart.py:10:80: E501 line too long", "fail", ""),
    ("npx biome check .", "Checked 12 files in 5ms. No fixes applied.", "pass", "12 files"),
    ("npx biome check .", "Checked 12 files in 5ms. No fixes applied.\nFound 3 errors.", "fail", "3 errors"),
    ("npx prettier --check .", "Checking formatting...\nAll matched files use Prettier code style!", "pass", ""),
    ("npx prettier --check .", "[warn] cart.ts\n[warn] Code style issues found in the above file. Run Prettier to fix.", "fail", ""),
    ("rubocop", "12 files inspected, no offenses detected", "pass", "12 files inspected, no offenses detected"),
    ("rubocop", "12 files inspected, 2 offenses detected", "fail", "12 files inspected, 2 offenses detected"),
    ("mix credo", "120 mods/funs, found no issues.", "pass", ""),
    ("mix credo", "120 mods/funs, found 1 warning.", "fail", "1 warning"),
    ("shellcheck a.sh", "In a.sh line 3:\necho $x\n     ^-- SC2086", "fail", ""),
    ("cargo clippy", "    Checking shop v0.1.0\n    Finished `dev` profile [unoptimized + debuginfo] target(s) in 0.5s", "pass", ""),
    ("cargo clippy", "error: this could be simpler\nerror: could not compile `shop` (lib) due to 1 previous error", "fail", ""),
    ("staticcheck ./...", "cart.go:3:2: this value is never used (SA4006)", "fail", ""),
    ("pre-commit run -a", "ruff.....................................................................Passed\nmypy.....................................................................Failed\n- hook id: mypy", "fail", ""),
    ("phpstan analyse", " [OK] No errors", "pass", ""),
    ("flutter analyze", "No issues found! (ran in 2.1s)", "pass", ""),
    ("mypy src", "Success: no issues found in 12 source files", "pass", "no issues found in 12 source files"),
    ("mypy src", "cart.py:3: error: Incompatible types  [assignment]\nFound 1 error in 1 file (checked 12 source files)", "fail", "1 error in 1 file"),
    ("pyright", "0 errors, 0 warnings, 0 informations", "pass", "0 errors, 0 warnings, 0 informations"),
    ("pyright", "2 errors, 0 warnings, 0 informations", "fail", "2 errors, 0 warnings, 0 informations"),
    ("npx tsc --noEmit", "src/cart.ts(3,1): error TS2322: Type 'string' is not assignable", "fail", ""),
    ("mix dialyzer", "Total errors: 0, Skipped: 0\ndone (passed successfully)", "pass", "Total errors: 0, Skipped: 0"),
    ("npx svelte-check", "svelte-check found 0 errors and 1 warning", "pass", "0 errors"),
    ("npm run build", "✓ built in 1.20s", "pass", ""),
    ("npm run build", "Failed to compile.\n\n./src/cart.ts:3:1", "fail", ""),
    ("cargo build", "error: could not compile `shop` (bin \"shop\") due to 2 previous errors", "fail", ""),
    ("go build ./...", "./cart.go:3:2: undefined: x", "fail", ""),
    ("dotnet build", "Build succeeded.\n    0 Warning(s)", "pass", ""),
    ("swift build", "Build complete! (1.2s)", "pass", ""),
    ("xcodebuild test -scheme Shop", "▸ Running script\n▸ Test Succeeded", "pass", ""),
    ("cargo check", "    Finished `dev` profile [unoptimized + debuginfo] target(s) in 1.3s", "pass", ""),
    ("cargo check", "error: could not compile `shop` (lib) due to 1 previous error", "fail", ""),
    ("dotnet build", "    0 Warning(s)\n    0 Error(s)\n\nTime Elapsed 00:00:03.21", "pass", "0 Error(s)"),
    ("npm run build", "Route (app)   Size  First Load JS\n┌ ○ /    5.2 kB   90 kB", "pass", ""),
    ("npm run build", "webpack 5.90.0 compiled with 2 warnings in 4321 ms", "pass", ""),
    ("docker build -t shop .", "#12 naming to docker.io/library/shop done\n#12 DONE 0.1s", "pass", ""),
    ("ng build", "Application bundle generation complete. [4.2 seconds]", "pass", ""),
    ("forge build", "Compiler run failed:", "fail", ""),
    ("pio test -e native", "====== 12 test cases: 1 failed, 11 succeeded in 00:00:03.2 ======", "fail", "12 test cases: 1 failed, 11 succeeded"),
    ("pio run", "====== [SUCCESS] Took 3.21 seconds ======", "pass", ""),
    ("hugo", "Total in 32 ms", "pass", ""),
]  # fmt: skip


@pytest.mark.parametrize(("command", "output", "result", "counts"), SUMMARIES)
def test_the_summary_decides_when_the_exit_code_is_masked(command: str, output: str, result: str, counts: str) -> None:
    check = run(f"{command} 2>&1 | tail -40", output)[0]
    assert (check.result, check.counts) == (result, counts)


@pytest.mark.parametrize(
    ("command", "output", "code", "expected"),
    [
        # An unmasked exit code is enough for silent tools.
        ("npx eslint .", "", 0, [("lint", "pass")]),
        ("npx tsc --noEmit", "", 0, [("types", "pass")]),
        ("make test", "all good", 0, [("tests", "pass")]),
        ("make test", "assertion failed", 2, [("tests", "fail")]),
        ("cd api && go test ./...", "", 1, [("tests", "fail")]),
        # Masked, and nothing in the output.
        ("make test | tail -3", "done", 0, [("tests", "unproven")]),
        ("make test || true", "assertion failed", 0, [("tests", "unproven")]),
        ("make test; echo finished", "finished", 0, [("tests", "unproven")]),
        ("if make test; then echo yes; fi", "yes", 0, [("tests", "unproven")]),
        ("for d in a b; do make -C $d test; done", "", 0, [("tests", "unproven")]),
        ("make test > out.txt 2>&1 &", "", 0, [("tests", "unproven")]),
        # Unmasked again.
        ("set -o pipefail; make test | tail -3", "done", 0, [("tests", "pass")]),
        ("set -e\nmake lint\nmake test\n", "", 0, [("lint", "pass"), ("tests", "pass")]),
        ("make test || exit 1", "", 0, [("tests", "pass")]),
        ("make test && echo ok", "ok", 0, [("tests", "pass")]),
        ("(cd api && make test) && echo ok", "ok", 0, [("tests", "pass")]),
        # The script prints the exit code.
        ('make test > out.txt 2>&1; echo "exit: $?"', "exit: 0", 0, [("tests", "pass")]),
        ('make test > out.txt 2>&1; echo "exit: $?"', "exit: 2", 0, [("tests", "fail")]),
        ('make test | tail -1; echo "exit: $?"', "boom\nexit: 0", 0, [("tests", "unproven")]),
        ('make test | tail -1; echo "code=${PIPESTATUS[0]}"', "boom\ncode=2", 0, [("tests", "fail")]),
        ("make test >/dev/null 2>&1 && echo GREEN || echo BROKEN", "BROKEN", 0, [("tests", "fail")]),
        ("make test >/dev/null 2>&1 && echo GREEN || echo BROKEN", "GREEN", 0, [("tests", "pass")]),
        # Silence of a tool that is silent on success.
        ("go build ./... 2>&1 | head -20", "", 0, [("build", "pass")]),
        ("go vet ./... | grep cart", "", 0, [("lint", "unproven")]),
        # A pipe that can hide failed packages.
        ("go test ./... | head -2", "ok  \ta\t0.1s\nok  \tb\t0.1s", 0, [("tests", "unproven")]),
        ("go test ./... | head -20", "ok  \ta\t0.1s\nok  \tb\t0.1s", 0, [("tests", "pass")]),
        ("go test ./... | grep ok", "ok  \ta\t0.1s", 0, [("tests", "unproven")]),
        ("go test ./... | grep -E 'ok|FAIL'", "ok  \ta\t0.1s", 0, [("tests", "pass")]),
        ("golangci-lint run cart/cart.go", "cart.go:3:1: undefined: x (typecheck)\n1 issues:\n* typecheck: 1", 1, [("lint", "could_not_run")]),
        ("npm run lint | tail", "> shop@1.0.0 lint\n> eslint src\n\n", 0, [("lint", "pass")]),
        ("npm run lint | tail", "> shop@1.0.0 lint\n> ./lint-all\n\n", 0, [("lint", "unproven")]),
        # A search for errors that found none.
        ("npx tsc --noEmit 2>&1 | grep error || echo 'no errors'", "no errors", 0, [("types", "pass")]),
        ("npx tsc --noEmit 2>&1 | grep error", "", 1, [("types", "pass")]),
        ("npx tsc --noEmit 2>&1 | grep src/cart.ts", "", 1, [("types", "unproven")]),
        # Hooks of git.
        ("git commit -m A", "ruff.....................Passed\n3 passed in 0.1s\n[main 1a2b3c4] A\n 1 file changed", 0, [("tests", "pass"), ("lint", "pass")]),
        ("git commit --no-verify -m A", "3 passed in 0.1s\n[main 1a2b3c4] A\n 1 file changed, 2 insertions(+)", 0, []),
        # Several checks.
        ("make lint && make test", "", 0, [("lint", "pass"), ("tests", "pass")]),
        ("mise run fmt && mise run lint && mise run test", "[lint] 2 issues:\n[lint] ERROR task failed", 1, [("lint", "fail")]),
        ("ruff check . && pytest", "All checks passed!\n1 failed, 2 passed in 0.1s", 1, [("lint", "pass"), ("tests", "fail")]),
        ("ruff check . && pytest", "Found 3 errors.", 1, [("lint", "fail")]),
        ("ruff check .; pytest -q", "Found 3 errors.\n2 passed in 0.1s", 0, [("lint", "fail"), ("tests", "pass")]),
        ("npx eslint . && npm test", "Tests:       1 failed, 1 total", 1, [("lint", "pass"), ("tests", "fail")]),
        ("tsc -p . && node x.js", "", 0, [("types", "pass"), ("build", "pass")]),
        # Printed marks divide the output.
        ("mix format --check-formatted; echo '---'; mix credo", "---\n9 mods/funs, found 1 warning.", 4, [("lint", "pass"), ("lint", "fail")]),
        # A task that can be anything is judged by what it shows.
        ("make check", "ruff check .\nAll checks passed!\npytest\n3 passed in 0.1s", 0, [("tests", "pass"), ("lint", "pass")]),
        ("npm run check", "> shop@1.0.0 check\n> tsc --noEmit && eslint .\n", 0, [("lint", "pass"), ("types", "pass")]),
        ("just ci", "nothing known", 0, []),
        # A build that runs tests on the way.
        ("mvn verify", "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0\n[INFO] BUILD SUCCESS", 0, [("build", "pass"), ("tests", "pass")]),
        ("mvn -DskipTests verify", "[INFO] BUILD SUCCESS", 0, [("build", "pass")]),
        # gofmt -l lists files and still exits with 0.
        ("gofmt -l .", "", 0, [("lint", "pass")]),
        ("gofmt -l .", "cart/cart.go\n", 0, [("lint", "fail")]),
        # Makefiles can ignore errors; the summary is stronger.
        ("make test", "1 failed, 2 passed in 0.2s", 0, [("tests", "fail")]),
    ],
)  # fmt: skip
def test_what_the_exit_code_proves(command: str, output: str, code: int, expected: list[tuple[str, str]]) -> None:
    assert results(command, output, code) == expected


@pytest.mark.parametrize(
    ("command", "output", "code"),
    [
        ("golangci-lint run", "/bin/bash: line 1: golangci-lint: command not found", 127),
        ("pytest", "zsh: command not found: pytest", 127),
        ("python -m pytest", "/usr/bin/python3: No module named pytest", 1),
        ("npm run lint", 'npm error Missing script: "lint"', 1),
        ("pnpm lint", "ERR_PNPM_NO_SCRIPT  Missing script: lint", 1),
        ("yarn lint", 'error Command "lint" not found.', 1),
        ("make lint", "make: *** No rule to make target 'lint'.  Stop.", 2),
        ("just lint", "error: Justfile does not contain recipe `lint`", 1),
        ("mise run lint", "mise ERROR no task lint found", 1),
        ("cargo nextest run", "error: no such command: `nextest`", 101),
        ("golangci-lint run", 'level=error msg="no go files to analyze"', 5),
        ("go test ./...", "go: updates to go.mod needed; to update it:\n\tgo mod tidy", 1),
        ("uv run pytest", "error: Failed to spawn: `pytest`", 2),
        ("mix credo", '** (Mix) The task "credo" could not be found', 1),
        ("pytest tests/nope.py", "ERROR: file or directory not found: tests/nope.py", 4),
        ("npx jest cart", "No tests found, exiting with code 1", 1),
        ("./gradlew test", "ERROR: JAVA_HOME is not set and no 'java' command could be found in your PATH.", 1),
        ("make test", "Command timed out after 2m 0.0s", 143),
    ],
)
def test_a_check_that_could_not_start_did_not_fail(command: str, output: str, code: int) -> None:
    check = run(command, output, code)[0]
    assert check.result == "could_not_run"
    assert check.reason


@pytest.mark.parametrize(
    ("command", "output", "reason"),
    [
        ("golangci-lint run", "started\nsrc\\cart.go:3:4: string `total` has 3 occurrences\n1 issues:", "src\\cart.go:3:4: string `total` has 3 occurrences"),
        ("pytest", "Exit code 1\n    def test_a():\n>       assert 1 == 2\nE       assert 1 == 2\n1 failed in 0.1s", "assert 1 == 2"),
        ("go test ./...", "--- FAIL: TestCart (0.00s)\n    cart_test.go:9: got 1\nFAIL\nFAIL\tshop/cart\t0.1s", "TestCart"),
        ("go test ./...", "# shop/cart\n./cart.go:3:2: undefined: x\nFAIL\tshop/cart [build failed]", "cart.go:3:2: undefined: x"),
        ("mise run lint", "[lint] $ golangci-lint run\n[lint] cart.go:3:1: bad (revive)\n[lint] 1 issues:\n[lint] ERROR task failed", "cart.go:3:1: bad (revive)"),
        ("npx eslint .", "\n/srv/cart.ts\n  3:1  error  Unexpected var  no-var\n\n✖ 1 problem (1 error, 0 warnings)", "3:1 error Unexpected var no-var"),
        ("cargo test", "thread 'cart::adds' panicked at src/cart.rs:3:5:\nboom\ntest result: FAILED. 0 passed; 1 failed; 0 ignored", "cart::adds' panicked at src/cart.rs:3:5:"),
        ("npx tsc --noEmit", "src/cart.ts(3,1): error TS2322: no\n", "src/cart.ts(3,1): error TS2322: no"),
        ("mypy .", "cart.py:3: error: no  [misc]\nFound 1 error in 1 file", "cart.py:3: error: no [misc]"),
    ],
)  # fmt: skip
def test_the_reason_is_the_first_line_that_names_the_cause(command: str, output: str, reason: str) -> None:
    assert run(command, output, 1)[0].reason == reason


@pytest.mark.parametrize(
    ("command", "output", "cached"),
    [
        ("go test ./...", "ok  \ta\t(cached)\nok  \tb\t(cached)", True),
        ("go test ./...", "ok  \ta\t(cached)\nok  \tb\t0.1s", False),
        ("./gradlew test", "> Task :test UP-TO-DATE\n\nBUILD SUCCESSFUL in 1s", True),
        ("turbo run test", "shop:test: cache hit, replaying logs\n Tasks:    1 successful, 1 total\nCached:    1 cached, 1 total\n  Time:    50ms >>> FULL TURBO", True),
        ("bazel test //...", "//cart:test  (cached) PASSED in 0.1s\nExecuted 0 out of 1 test: 1 test passes.", True),
        ("pytest", "3 passed in 0.1s", False),
    ],
)  # fmt: skip
def test_a_repeated_old_result_is_cached(command: str, output: str, cached: bool) -> None:
    assert run(command, output)[0].cached is cached


@pytest.mark.parametrize(
    ("description", "meant"),
    [
        ("Verify the new test fails", True),
        ("Run tests, expected to fail (TDD red)", True),
        ("Confirm it fails before the fix", True),
        ("This should fail", True),
        ("Run the tests", False),
        ("Check which tests fail", False),
        ("Verify if anything fails", False),
        ("Run the failing test again", False),
    ],
)
def test_a_planned_red_run_is_marked(description: str, meant: bool) -> None:
    assert run("pytest", "1 failed in 0.1s", 1)[0].meant_to_fail is False
    call = run("pytest", "1 failed in 0.1s", 1, description=description)
    assert call[0].meant_to_fail is meant


def test_claude_code_writes_the_exit_code_into_the_output() -> None:
    call = run("make test", "Exit code 2\nmake: *** [Makefile:4: test] Error 2", None)
    assert call[0].result == "fail"


def test_colours_and_carriage_returns_do_not_hide_the_summary() -> None:
    assert run("npx jest | cat", "\x1b[1mTests:       \x1b[22m\x1b[32m5 passed\x1b[39m, 5 total\r\n")[0].result == "pass"


def test_a_run_that_was_only_started_has_no_result() -> None:
    output = "Command running in background with ID: b1a2c3. Output is being written to: /tmp/b1a2c3.output"
    assert [check.result for check in run("npm test", output, 0, background=True)] == ["unproven"]


def test_tox_ran_only_the_environments_that_it_shows() -> None:
    tests = "py311: commands[0]> pytest\n12 passed in 0.5s\n  py311: OK (1.2=setup[0.5]+cmd[0.7] seconds)\n"
    assert results("tox", tests + "  congratulations :) (1.30 seconds)") == [("tests", "pass")]
    more = "  lint: OK (0.3 seconds)\n  mypy: OK (0.3 seconds)\n  congratulations :) (1.30 seconds)"
    assert results("tox | tail -4", tests + more, None) == [("tests", "pass"), ("lint", "pass"), ("types", "pass")]


PRETEST = """
> shop@1.0.0 pretest /home/dev/shop
> pnpm run compile && pnpm run lint

> shop@1.0.0 compile /home/dev/shop
> node esbuild.js

> shop@1.0.0 lint /home/dev/shop
> eslint src

> shop@1.0.0 test /home/dev/shop
> mocha

"""


def test_scripts_that_npm_runs_on_the_way_are_checks() -> None:
    passed = dict(results("pnpm test", PRETEST + "  3 passing (20ms)\n"))
    assert passed == {"tests": "pass", "build": "pass", "lint": "pass"}
    failed = dict(results("pnpm test", PRETEST + "  2 passing (20ms)\n  1 failing\n ELIFECYCLE  Test failed.\n", 1))
    assert failed == {"tests": "fail", "build": "pass", "lint": "pass"}


def test_the_script_at_which_npm_stopped_has_not_passed() -> None:
    stopped = PRETEST.partition("> shop@1.0.0 test")[0] + "/home/dev/shop/src/a.ts\n  1:1  error  Unexpected any\n"
    assert ("lint", "pass") not in results("pnpm test", stopped, 1)
    assert ("build", "pass") in results("pnpm test", stopped, 1)


HOOK = (
    "$ bun test src/\nerror: Item 3 failed\n 12 pass\n 0 fail\n$ biome check\nChecked 9 files in 1ms. No fixes applied.\n$ tsc --noEmit\n"
)


def test_checks_of_a_hook_passed_if_the_commit_was_made() -> None:
    made = dict(results("git add a && git commit -m 'x'", f"{HOOK}[main 4b1db34] x\n 1 file changed\n"))
    assert made == {"tests": "pass", "lint": "pass", "types": "pass"}
    staged = "[main 3396fbe] x\n[STARTED] eslint --fix\n[COMPLETED] eslint --fix\n[COMPLETED] prettier --write\n"
    assert results("git commit -m x", staged) == [("lint", "pass")]


def test_an_error_line_of_a_test_is_no_type_error_of_a_hook() -> None:
    assert "types" not in dict(results("git commit -m x", HOOK.partition("$ tsc")[0] + "Found 1 error.\n", 1))


def test_tasks_of_mise_passed_if_all_finished() -> None:
    output = (
        "[ci] $ mise typecheck ::: test\n[types] $ tsc --noEmit\n[test] $ bun test\n[test]  12 pass\n[test]  0 fail\nFinished in 1.86s\n"
    )
    assert dict(results("mise ci 2>&1 | tail -15", output)) == {"tests": "pass", "types": "pass"}
    failed = output.replace("Finished", "[types] ERROR task failed\nFinished")
    assert dict(results("mise ci 2>&1 | tail -15", failed)).get("types") != "pass"


def test_tests_whose_setup_cannot_be_imported_could_not_run() -> None:
    output = "ImportError while loading conftest '/home/dev/shop/tests/conftest.py'.\nE   ModuleNotFoundError: No module named 'respx'\n"
    assert results("python -m pytest tests 2>&1 | head -30", output) == [("tests", "could_not_run")]


@pytest.mark.parametrize(
    ("command", "output", "whole", "counts"),
    [
        ("go test ./... 2>&1 | tail -2", "ok  \tshop/cart\t0.1s\nok  \tshop/user\t0.1s", True, ""),
        ("go test ./... 2>&1 | tail -30", "ok  \tshop/cart\t0.1s\nok  \tshop/user\t0.1s", True, "2 packages ok"),
        ("go test ./... 2>&1 | grep -v 'no test files'", "ok  \tshop/cart\t0.1s\nok  \tshop/user\t0.1s", True, "2 packages ok"),
        ("pytest 2>&1 | tail -1", "==== 12 passed in 0.3s ====", True, "12 passed"),
        (
            "mise run check 2>&1 | tail -3",
            "[test:ci] ?   \tshop/cmd\t[no test files]\n[test:ci] Finished in 9.06s\nFinished in 9.06s",
            True,
            "",
        ),
        (
            "git commit -m 'Round the total'",
            "$ bun test src/\n 12 pass\n 0 fail\n[main 1234567] Round the total\n 1 file changed",
            True,
            "12 pass",
        ),
    ],
)
def test_a_filter_of_the_output_makes_no_selection_and_no_count(command: str, output: str, whole: bool, counts: str) -> None:
    found = run(command, output)[0]
    assert (found.kind, found.result, found.whole, found.counts) == ("tests", "pass", whole, counts)


@pytest.mark.parametrize(
    ("command", "output", "code", "expected"),
    [
        ("rtk test npm test", " 12 pass\n 0 fail", 0, [("tests", "pass")]),
        ("rtk lint npm run lint", "> eslint src", 0, [("lint", "pass")]),
        (
            "go build ./... && go test ./cart/... | tail -2; go run . list",
            "ok  \tshop/cart\t0.1s",
            0,
            [("build", "pass"), ("tests", "pass")],
        ),
        ('go test ./... 2>&1 | grep -v "^ok" | head -20', "?   \tshop/build\t[no test files]", 0, [("tests", "pass")]),
        ('go test ./... | grep -v "^ok" | head -9; echo "EXIT:$?"', "?   \tshop/b\t[no test files]\nEXIT:0", 0, [("tests", "pass")]),
        ('go test ./... 2>&1 | grep -v "^ok"', "", 1, [("tests", "pass")]),
        ('go test ./... 2>&1 | grep -v "^ok"', "--- FAIL: TestCart (0.00s)\nFAIL", 0, [("tests", "fail")]),
        ('go test ./... 2>&1 | grep -v "FAIL"', "", 0, [("tests", "unproven")]),
        ("npx eslint . 2>&1 | Select-Object -Last 5", "", 1, [("lint", "fail")]),
        (
            "markdownlint-cli2 docs/a.md 2>&1 | tail -3",
            "docs/a.md:7:81 error MD013/line-length Line length [Expected: 80; Actual: 95]",
            0,
            [("lint", "fail")],
        ),
        (
            "pnpm -r typecheck",
            'ERR_PNPM_RECURSIVE_RUN_NO_SCRIPT None of the selected packages has a "typecheck" script',
            1,
            [("types", "could_not_run")],
        ),
        ("markdownlint-cli2 docs/a.mdx 2>&1 | tail -3", "Linting: 0 file(s)\nSummary: 0 error(s)", 0, [("lint", "could_not_run")]),
        ('pnpm test 2>&1 | grep -E "FAIL|●"', " FAIL src/cart.spec.ts\n  ● adds", 0, [("tests", "fail")]),
        ("pnpm --filter api build 2>&1 | tail -5", "> @shop/api@1.0.0 build /srv/api\n> nest build", 0, [("build", "pass")]),
    ],
)
def test_results_behind_wrappers_and_filters(command: str, output: str, code: int, expected: list[tuple[str, str]]) -> None:
    assert results(command, output, code) == expected


HOOKS = "Typecheck......................Passed\nLint...........................Failed\nTest...........................Passed\n"


def test_hooks_of_pre_commit_are_checks_of_their_names() -> None:
    found = dict(results("git push -u origin cart", f"{HOOKS}error: failed to push some refs to 'x'", 1))
    assert found == {"tests": "pass", "lint": "fail", "types": "pass"}


def test_a_hook_that_failed_is_no_success_of_git_behind_a_wrapper() -> None:
    output = "$ tsc --noEmit\na.ts(6,4): error TS2739: Type 'X' is missing y\nhusky - pre-commit script failed (code 2)"
    assert ("types", "fail") in results("rtk git commit -m 'Add a cart'", output, 0)


def test_a_negative_check_is_marked_by_what_the_script_prints() -> None:
    found = run('go test ./... | tail -2 && echo "--- negative check ---"; REQUIRE=zsh go test -run Smoke .', "ok  \tshop\t0.1s\nFAIL", 1)
    assert found
    assert all(one.meant_to_fail for one in found)


def test_a_wrapper_that_hides_the_exit_code_of_a_refused_commit_hides_no_failed_check() -> None:
    output = """FAILED: git commit
$ bun test src/
 1351 pass
 0 fail
Ran 1351 tests across 61 files. [831.00ms]
$ tsc --noEmit
src/index.ts(15,39): error TS2307: Cannot find module './assets' or its corresponding type declarations.
husky - pre-commit script failed (code 2)"""
    assert dict(results("rtk git commit -m 'Add assets'", output)) == {"tests": "pass", "types": "fail"}


@pytest.mark.parametrize(
    "command",
    [
        "npx tsc --noEmit 2>&1 | wc -l",
        "npx tsc --noEmit 2>&1 | grep -c error",
        "flake8 src | wc -l",
    ],
)
def test_a_count_of_no_lines_is_a_pass(command: str) -> None:
    assert [check.result for check in run(command, "0", 0 if "wc" in command else 1)] == ["pass"]
    assert [check.result for check in run(command, "3", 0)] == ["unproven"]


@pytest.mark.parametrize(
    ("command", "output", "expected"),
    [
        ("./run-everything", "== 3 passed in 0.12s ==", [("tests", "pass")]),
        ("cd app && xvfb-run ./e2e.sh 2>&1 | tail -3", "Tests:       1 failed, 4 passed, 5 total", [("tests", "fail")]),
        ("ssh build 'cd shop && ./all'", "test result: ok. 3 passed; 0 failed; 0 ignored", [("tests", "pass")]),
        ("docker compose up app", "Tests: 5 passed, 5 total", [("tests", "pass")]),
        ("docker logs app", "Tests: 5 passed, 5 total", []),
        ("gh run view 1 --log", "== 3 passed in 0.12s ==", []),
        ("cat log.txt", "== 3 passed in 0.12s ==", []),
        ("python -c 'print(open(\"log\").read())'", "== 3 passed in 0.12s ==", []),
        ("./serve", "PASS", []),
    ],
)
def test_a_runner_is_known_by_its_summary(command: str, output: str, expected: list[tuple[str, str]]) -> None:
    assert results(command, output) == expected


@pytest.mark.parametrize(
    ("tool", "output", "expected"),
    [
        ("mcp__xcode__build_sim", "iOS Simulator Build build succeeded for scheme Shop.", [("build", "pass")]),
        ("mcp__xcode__build_sim", "Build failed\nShop.swift:3:1: error: cannot find 'x' in scope", [("build", "fail")]),
        ("runTests", "Tests: 1 failed, 4 passed, 5 total", [("tests", "fail")]),
        ("mcp__vitest__run_tests", "Tests  12 passed (12)", [("tests", "pass")]),
        ("mcp__vitest__list_tests", "Tests  12 passed (12)", []),
        ("playwright_navigate", "Navigated", []),
    ],
)
def test_checks_of_other_tools(tool: str, output: str, expected: list[tuple[str, str]]) -> None:
    call = ToolCall(1, 1, datetime(2026, 1, 2, tzinfo=UTC), Source("e1", "c1"), kind="other", tool=tool, state="ok", output=output)
    assert [(check.kind, check.result) for check in read_call(call).checks] == expected


def test_an_error_line_of_a_build_is_a_failure_behind_a_pipe() -> None:
    assert results("swift build 2>&1 | tail -5", "error: 'shop': unknown package 'Cart' in dependencies") == [("build", "fail")]


def test_a_search_for_errors_that_finds_none_is_a_pass() -> None:
    assert results("cargo check 2>&1 | grep -E '^(error|warning)' | head", "") == [("types", "pass")]
