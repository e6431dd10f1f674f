# ruff: noqa: E501 - a row of a table is easier to read on one line
"""Tables of programs, subcommands and task names that are checks, and of the options that matter for them."""

import re
from collections.abc import Mapping
from typing import Literal

from fleetlore.dialects.commands.shell import make_word_set

Kind = Literal["tests", "lint", "types", "build", "mixed"]

PROGRAMS: Mapping[Kind, str] = {
    "tests": """
        pytest py.test nosetests nose2 unittest jest mocha ava jasmine karma tap rspec minitest cucumber cucumber-js behave phpunit pest
        paratest ctest gotestsum bats prove busted kaocha trial stestr robot newman codecept codeception elm-test wtr web-test-runner
        japa uvu tape nyc c8 xctest runtests.py manage-tests lein-test pytest-3 green ward zunit shellspec testem qunit stryker
        phpspec infection mutmut testcafe Invoke-Pester behat
    """,
    "lint": """
        flake8 pylint bandit eslint oxlint stylelint shellcheck hadolint rubocop standardrb phpstan psalm phpcs golangci-lint staticcheck
        ktlint detekt swiftlint pre-commit prek lint-imports actionlint yamllint markdownlint markdownlint-cli2 semgrep vulture deptry knip
        cpplint cppcheck clang-tidy checkstyle pmd tflint ansible-lint cfn-lint sqlfluff luacheck selene statix hlint credo revive
        errcheck gosec golint xo tslint jshint standard commitlint spectral pycodestyle pydocstyle pyflakes autoflake perlcritic
        ember-template-lint erb_lint haml-lint slim-lint reek brakeman solhint slither proselint vale codespell typos cargo-clippy
        lintr djlint publint attw govulncheck lefthook zizmor kubeconform kube-linter taplo dotenv-linter fasterer ls-lint depcheck
    """,
    "types": "mypy dmypy pyright basedpyright pyre pyrefly pytype ty vue-tsc svelte-check dialyzer dialyxir srb steep flow",
    "build": """
        webpack rollup esbuild parcel ninja gcc g++ cc clang clang++ rustc javac kotlinc scalac ghc ocamlc ocamlopt tsup
        mkdocs-build sphinx-build jekyll-build swiftc msbuild wasm-pack ncc pkgroll unbuild bunchee electron-builder
        latexmk pdflatex xelatex rebuild.sh solc
    """,
}
BY_PROGRAM: dict[str, Kind] = {name: kind for kind, names in PROGRAMS.items() for name in names.split()}

TESTS: Kind = "tests"
LINT: Kind = "lint"
TYPES: Kind = "types"
BUILD: Kind = "build"
MIXED: Kind = "mixed"
TEST_BUILD: Mapping[str, Kind] = {"test": TESTS, "build": BUILD, "compile": BUILD}
# Program → first word → kind.
BY_SUBCOMMAND: Mapping[str, Mapping[str, Kind]] = {
    "go": {"test": TESTS, "build": BUILD, "vet": LINT, "install": BUILD},
    "cargo": {
        "test": TESTS,
        "t": TESTS,
        "nextest": TESTS,
        "llvm-cov": TESTS,
        "tarpaulin": TESTS,
        "bench": TESTS,
        "miri": TESTS,
        "hack": MIXED,
        "mutants": TESTS,
        "clippy": LINT,
        "deny": LINT,
        "audit": LINT,
        "machete": LINT,
        "udeps": LINT,
        "check": TYPES,
        "c": TYPES,
        "build": BUILD,
        "b": BUILD,
        "doc": BUILD,
        "rustc": BUILD,
        "xtask": MIXED,
        "tauri": BUILD,
        "insta": TESTS,
        "lint": LINT,
        "careful": TESTS,
    },
    "mix": {
        "test": TESTS,
        "coveralls": TESTS,
        "credo": LINT,
        "sobelow": LINT,
        "dialyzer": TYPES,
        "compile": BUILD,
        "release": BUILD,
        "precommit": MIXED,
        "check": MIXED,
        "ci": MIXED,
        "lint": LINT,
        "quality": MIXED,
        "xref": LINT,
        "espec": TESTS,
        "doctor": LINT,
        "docs": BUILD,
        "assets.build": BUILD,
    },
    "dotnet": {**TEST_BUILD, "publish": BUILD, "vstest": TESTS},
    "swift": {**TEST_BUILD, "package": BUILD},
    "flutter": {**TEST_BUILD, "analyze": LINT, "drive": TESTS},
    "dart": {"test": TESTS, "compile": BUILD, "analyze": LINT},
    "zig": {"test": TESTS, "build": BUILD, "build-exe": BUILD, "build-lib": BUILD, "ast-check": BUILD},
    "stack": TEST_BUILD,
    "cabal": TEST_BUILD,
    "dune": {"test": TESTS, "runtest": TESTS, "build": BUILD},
    "lein": {"test": TESTS, "midje": TESTS, "kibit": LINT, "eastwood": LINT, "compile": BUILD, "uberjar": BUILD},
    "rebar3": {"eunit": TESTS, "ct": TESTS, "proper": TESTS, "dialyzer": TYPES, "xref": LINT, "compile": BUILD, "lint": LINT},
    "rye": {"test": TESTS, "lint": LINT},
    "gleam": {"test": TESTS, "build": BUILD, "check": TYPES},
    "crystal": {"spec": TESTS, "build": BUILD},
    "nimble": TEST_BUILD,
    "dub": TEST_BUILD,
    "spago": TEST_BUILD,
    "scala-cli": TEST_BUILD,
    "rescript": {"build": BUILD},
    "deno": {"test": TESTS, "lint": LINT, "check": TYPES, "compile": BUILD},
    "bazel": {"test": TESTS, "build": BUILD, "coverage": TESTS},
    "bazelisk": {"test": TESTS, "build": BUILD, "coverage": TESTS},
    "pants": {"test": TESTS, "lint": LINT, "check": TYPES, "package": BUILD},
    "buck2": {"test": TESTS, "build": BUILD},
    "buck": {"test": TESTS, "build": BUILD},
    "meson": {"test": TESTS, "compile": BUILD},
    "forge": {"test": TESTS, "build": BUILD, "coverage": TESTS, "lint": LINT},
    "hardhat": {"test": TESTS, "compile": BUILD},
    "truffle": {"test": TESTS, "compile": BUILD},
    "anchor": {"test": TESTS, "build": BUILD},
    "rails": {"test": TESTS, "spec": TESTS, "zeitwerk:check": BUILD},
    "artisan": {"test": TESTS},
    "manage.py": {"test": TESTS, "check": LINT},
    "playwright": {"test": TESTS},
    "cypress": {"run": TESTS},
    "wdio": {"run": TESTS},
    "detox": {"test": TESTS, "build": BUILD},
    "ng": {**TEST_BUILD, "lint": LINT, "e2e": TESTS},
    "react-scripts": TEST_BUILD,
    "vite": {"build": BUILD},
    "nest": {"build": BUILD},
    "next": {"build": BUILD, "lint": LINT},
    "nuxt": {"build": BUILD, "typecheck": TYPES, "generate": BUILD},
    "nuxi": {"build": BUILD, "typecheck": TYPES},
    "astro": {"build": BUILD, "check": TYPES},
    "svelte-kit": {"build": BUILD},
    "gatsby": {"build": BUILD},
    "remix": {"build": BUILD},
    "expo": {"lint": LINT, "export": BUILD},
    "eas": {"build": BUILD},
    "pio": {"run": BUILD, "test": TESTS, "check": LINT},
    "platformio": {"run": BUILD, "test": TESTS, "check": LINT},
    "idf.py": {"build": BUILD},
    "west": {"build": BUILD},
    "trunk": {"build": BUILD, "check": LINT},
    "docusaurus": {"build": BUILD},
    "eleventy": {"": BUILD},
    "ninja": {"test": TESTS, "check": TESTS},
    "rolldown": {"build": BUILD},
    "rspack": {"build": BUILD},
    "tsdown": {"": BUILD},
    "hatch": {"test": TESTS, "build": BUILD},
    "uv": {"build": BUILD},
    "poetry": {"build": BUILD, "check": LINT},
    "flit": {"build": BUILD},
    "maturin": {"build": BUILD, "develop": BUILD},
    "mkdocs": {"build": BUILD},
    "jekyll": {"build": BUILD},
    "hugo": {"": BUILD},
    "docker": {"build": BUILD, "buildx": BUILD, "compose": BUILD},
    "podman": {"build": BUILD},
    "terraform": {"validate": LINT, "test": TESTS},
    "tofu": {"validate": LINT, "test": TESTS},
    "helm": {"lint": LINT, "unittest": TESTS},
    "buf": {"lint": LINT, "build": BUILD, "breaking": LINT},
    "biome": {"check": LINT, "lint": LINT, "ci": LINT},
    "ruff": {"check": LINT},
    "swift-format": {"lint": LINT},
    "vacuum": {"lint": LINT},
    "redocly": {"lint": LINT},
    "gem": {"build": BUILD},
    "tuist": {**TEST_BUILD},
    "fastlane": {"test": TESTS, "tests": TESTS, "build": BUILD, "lint": LINT},
    "bin/rails": {"test": TESTS},
    "stylelint": {"": LINT},
    "asv": {"check": LINT},
    "sam": {"build": BUILD, "validate": LINT},
    "cdk": {"synth": BUILD},
    "wails": {"build": BUILD},
    "tauri": {"build": BUILD},
    "nix": {"build": BUILD, "flake": MIXED},
    "pulumi": {},
    "ape": {"test": TESTS, "compile": BUILD},
    "scarb": {"test": TESTS, "build": BUILD},
    "snforge": {"test": TESTS},
    "aiken": {"check": TESTS, "build": BUILD},
    "moon": {},
}
# Formatters: what they do with these flags is a check, without them they rewrite files.
FORMATTERS: Mapping[str, frozenset[str]] = {
    name: frozenset(flags.split())
    for name, flags in {
        "prettier": "--check -c -l --list-different",
        "black": "--check --diff",
        "isort": "--check --check-only -c --diff",
        "blue": "--check",
        "yapf": "--diff -d",
        "autopep8": "--diff --exit-code",
        "rustfmt": "--check",
        "clang-format": "--dry-run -n -Werror --Werror",
        "shfmt": "-d -l",
        "stylua": "--check",
        "google-java-format": "--dry-run -n --set-exit-if-changed",
        "swiftformat": "--lint",
        "ocamlformat": "--check",
        "nixfmt": "--check",
        "nixpkgs-fmt": "--check",
        "alejandra": "--check",
        "elm-format": "--validate",
        "php-cs-fixer": "--dry-run",
        "pint": "--test",
        "cmake-format": "--check",
        "ktfmt": "--dry-run --set-exit-if-changed",
        "fourmolu": "--mode=check",
        "ormolu": "--mode=check",
        "purs-tidy": "check",
        "oxfmt": "--check",
        "gci": "diff list",
        "dprint": "check",
    }.items()
}
LISTING_FORMATTERS = frozenset(("gofmt", "goimports", "gofumpt"))
FORMAT_SUBCOMMANDS: Mapping[tuple[str, str], frozenset[str]] = {
    (program, sub): frozenset(flags.split())
    for program, sub, flags in (
        ("cargo", "fmt", "--check"),
        ("mix", "format", "--check-formatted"),
        ("ruff", "format", "--check --diff"),
        ("dart", "format", "--set-exit-if-changed"),
        ("dotnet", "format", "--verify-no-changes"),
        ("deno", "fmt", "--check"),
        ("terraform", "fmt", "-check"),
        ("tofu", "fmt", "-check"),
        ("buf", "format", "-d --exit-code"),
        ("zig", "fmt", "--check"),
        ("gleam", "format", "--check"),
        ("forge", "fmt", "--check"),
        ("crystal", "tool", "--check"),
        ("hatch", "fmt", "--check"),
        ("uv", "format", "--check"),
        ("scarb", "fmt", "--check"),
    )
}

# Task runners: the options of each that take a value; the task is the first other word.
RUNNERS: Mapping[str, frozenset[str]] = {
    name: frozenset(valued.split())
    for name, valued in {
        "make": "-C -f -I -o -W --directory --file --makefile",
        "gmake": "-C -f -I --directory --file --makefile",
        "remake": "-C -f",
        "just": "-f --justfile -d --working-directory --set --shell",
        "task": "-d --dir -t --taskfile -C --concurrency -o --output",
        "go-task": "-d --dir -t --taskfile",
        "rake": "-f --rakefile -C --directory",
        "invoke": "-c -r --collection --search-root",
        "inv": "-c -r --collection --search-root",
        "poe": "-C --directory",
        "nps": "",
        "npm": "--prefix -w --workspace -C --loglevel",
        "pnpm": "--filter -F -C --dir --reporter --loglevel --workspace-concurrency",
        "yarn": "--cwd",
        "bun": "--cwd --filter -F",
        "turbo": "--filter -F --cwd --concurrency --output-logs --log-order",
        "nx": "-t --target --targets -p --project --projects -c --configuration --base --head --parallel",
        "lerna": "--scope --concurrency",
        "composer": "-d --working-dir",
        "deno": "",
        "mise": "-C --cd -E --env -j --jobs -o --output -t --tool",
        "rtx": "-C --cd",
        "moon": "--query -c --concurrency",
        "hatch": "-e --env -p --project",
        "pdm": "-p --project",
        "pixi": "-e --environment --manifest-path",
        "devbox": "-c --config",
        "wireit": "",
        "vp": "",
        "rush": "",
        "earthly": "",
        "dagger": "-m",
        "mage": "-d -w",
        "bb": "",
        "cargo-make": "-p --profile",
        "tusk": "-f",
        "doit": "-f -d",
        "proto": "",
        "lune": "",
    }.items()
}
RUN_WORDS = frozenset(("run", "run-script", "r", "rum", "exec", "run-many", "affected", "workspaces", "foreach", "task", "ci-run"))
RUNNERS_WITH_RUN = make_word_set("mise rtx deno moon pdm pixi devbox hatch lerna vp")
NPM_LIKE = frozenset(("npm", "pnpm", "yarn", "bun"))
LABELLED_WITH_RUN = make_word_set("mise npm pnpm rtx bun turbo")
SEVERAL_TASKS = make_word_set("make gmake just task go-task rake turbo lerna moon mise rtx doit bb")
SHOW_ONLY = make_word_set("-n --dry-run --just-print --list --help --summary -h")
NPM_OWN = make_word_set(
    """install i ci add remove rm uninstall update up upgrade outdated audit publish pack link init create why list ls view info config cache
    dedupe prune login logout whoami version root bin doctor fund help import store patch dlx exec x explain pm global"""
)
# Programs that take several goals in a row.
GOALS: Mapping[str, Mapping[str, tuple[Kind, ...]]] = {
    "gradle": {
        "test": (TESTS,), "check": (TESTS,), "build": (BUILD, TESTS), "assemble": (BUILD,), "lint": (LINT,), "ktlintCheck": (LINT,), "detekt": (LINT,),
        "spotlessCheck": (LINT,), "checkstyleMain": (LINT,), "compileJava": (BUILD,), "compileKotlin": (BUILD,), "classes": (BUILD,), "jar": (BUILD,),
        "bootJar": (BUILD,), "testClasses": (BUILD,), "connectedCheck": (TESTS,), "connectedAndroidTest": (TESTS,), "allTests": (TESTS,),
        "jvmTest": (TESTS,), "integrationTest": (TESTS,), "testDebugUnitTest": (TESTS,), "assembleDebug": (BUILD,), "lintDebug": (LINT,),
        "installDebug": (BUILD,), "bundle": (BUILD,), "publishToMavenLocal": (BUILD,), "nativeTest": (TESTS,),
    },
    "mvn": {
        "test": (TESTS,), "verify": (BUILD, TESTS), "package": (BUILD, TESTS), "install": (BUILD, TESTS), "compile": (BUILD,), "test-compile": (BUILD,),
        "integration-test": (TESTS,), "checkstyle:check": (LINT,), "spotless:check": (LINT,), "pmd:check": (LINT,), "spotbugs:check": (LINT,),
        "deploy": (BUILD, TESTS), "surefire:test": (TESTS,), "failsafe:verify": (TESTS,),
    },
    "sbt": {"test": (TESTS,), "testOnly": (TESTS,), "compile": (BUILD,), "assembly": (BUILD,), "scalafmtCheck": (LINT,), "Test/compile": (BUILD,)},
    "ant": {"test": (TESTS,), "build": (BUILD,), "compile": (BUILD,), "jar": (BUILD,)},
    "xcodebuild": {"test": (TESTS,), "build": (BUILD,), "build-for-testing": (BUILD,), "archive": (BUILD,), "analyze": (LINT,)},
}  # fmt: skip
GOAL_ALIASES = {"gradlew": "gradle", "mvnw": "mvn", "mvnd": "mvn", "sbtn": "sbt"}

# Words in a task's name.
TEST_WORDS = make_word_set(
    """test tests testing spec specs e2e unittest unittests coverage cov vitest jest pytest mocha playwright cypress rspec phpunit
    nextest testsuite smoke ut"""
)
LINT_WORDS = make_word_set(
    """lint linter lints linting eslint ruff clippy vet style styles rubocop stylelint golangci flake8 pylint shellcheck credo oxlint biome
    checkstyle phpstan phpcs staticcheck ktlint detekt swiftlint knip standard markdownlint"""
)
TYPE_WORDS = make_word_set("typecheck typechecking types tsc mypy pyright dialyzer typing typescript")
BUILD_WORDS = make_word_set("build builds compile bundle assemble transpile")
MIXED_WORDS = make_word_set("check checks ci verify validate qa quality precommit prepush preflight gate gates validation sanity prcheck")
CHECK_MODE_WORDS = make_word_set("check checks verify ci lint diff dry validate")
FORMAT_WORDS = make_word_set("format fmt formatting prettier black gofmt rustfmt formatter")
NEVER_WORDS = make_word_set(
    """watch dev serve server start stop clean install deps dep setup publish release deploy preview storybook logs log open ui debug
    bootstrap seed migrate migration data db down up env login help report fixtures fixture init mock mocks update image push
    list new create gen generate prepare data"""
)
PARTIAL_WORDS = make_word_set("smoke quick fast e2e integration changed affected focus one single related")
SPLITTER = re.compile(r"[:._\-/]+")
CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")

# Options that choose some of the tests, files or packages.
SELECTING = make_word_set(
    """-k -run --run -t --testNamePattern --test-name-pattern --filter --only --grep -g --lf --last-failed --ff --tests --test
    --testPathPattern --testPathPatterns --findRelatedTests --onlyChanged -o --changed --changedSince --spec --name -e --example --tag
    --tags --only-tags --failed --stale --bail-on -p --package --lib --bin --bins --doc --nf --deselect -n --match --match-path --mt
    --match-test --match-contract --new-from-rev --files --file --related --group --testsuite --suite --projects --shard -m --since
    --only-failures --next-failure -R -only-testing --project"""
)
SELECTING_STARTS = ("-Dtest=", "-Dit.test=", "-run=", "-k=", "--filter=", "--grep=", "--tests=", "--testNamePattern=", "--only=",
    "-only-testing:", "--tags=", "--spec=", "--package=", "-p=", "--test_filter=", "--new-from-rev=", "--project=", "-pl", "-t=",
    "--testPathPattern", "--changed=", "--shard=", "-R=", "--match-", "--focus")  # fmt: skip
# Options whose value is no path, so that `pytest -n 4` is not taken for a selection.
VALUED = make_word_set(
    """-n -c --maxfail --tb --cov --cov-report -W --timeout -timeout -count -parallel -cpu -tags --tags -coverprofile -covermode
    -coverpkg --reporter -r --reporters --config --maxWorkers -w --workers --seed -j --jobs --jobs= --profile --features -F --target
    --manifest-path --target-dir --color --format -f --verbosity --logger --output --cache-dir --rootdir -o --durations --dist
    --numprocesses -v:n --max-failures --trace --retries --test-threads --config-file --python-version --ignore --exclude
    --max-warnings --ext --parser --rulesdir --resolve-plugins-relative-to --cache-location --outputFile --root --dir --pool
    --testTimeout --silent= --line-length --select --extend-select --output-format --exclude-dir --min-severity --severity
    --import-mode -p --override-ini --log-level --log-cli-level --junitxml --basetemp --ds --settings --include --max-cases --partitions
    -fuzztime -benchtime -bench -mod -ldflags -gcflags -asmflags -C --out-dir --project -P --scheme -scheme -destination -workspace
    -configuration -sdk --test-dir --configuration --framework -derivedDataPath -project"""
)
LIST_ONLY = make_word_set(
    """--collect-only --co --fixtures --markers --listTests --list --list-tests --show-only -N --listenvs --help -h --version -V -list
    --init --showConfig --print-config --generate-config --dry-run --list-details --list-sessions -l --no-run"""
)
WATCHING = frozenset(("--watch", "-w", "--watchAll", "--ui", "watch", "dev", "--serve", "serve"))
MODULE_PROGRAMS = make_word_set("python python3 python2 py pypy pypy3")
PYTHON_VERSION = re.compile(r"python3?\.\d+\Z")
TEST_FILE = re.compile(
    r"(?:^|[/\\])(?:test_[\w.-]*\.py|[\w.-]*_test\.(?:py|rb|exs|go)|[\w.-]*[._-](?:test|spec)\.[cm]?[jt]sx?|runtests\.py|run_tests\.py|tests?\.(?:py|js|mjs|rb|sh))\Z"
)
SCRIPT_SUFFIX = re.compile(r"\.(?:sh|bash|zsh|py|js|mjs|cjs|ts|rb|pl|ps1)\Z")
SCRIPT_TASKS: Mapping[str, Kind] = {
    **dict.fromkeys(
        make_word_set("test tests run-tests run_tests runtests test-all test_all run-test all-tests unit-tests unit_tests"), TESTS
    ),
    **dict.fromkeys(make_word_set("lint run-lint run_lint linter lint-all check-format check_format check-lint"), LINT),
    **dict.fromkeys(make_word_set("typecheck type-check check-types check_types"), TYPES),
    **dict.fromkeys(make_word_set("build compile build-all"), BUILD),
    **dict.fromkeys(make_word_set("check checks ci verify validate precommit pre-commit check-all run-checks preflight"), MIXED),
}
SCRIPT_STARTERS = make_word_set("bash sh zsh node tsx ts-node bun deno ruby perl source . pwsh powershell")
