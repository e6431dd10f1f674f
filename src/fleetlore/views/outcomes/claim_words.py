"""The words that decide whether a sentence is a claim of success: subjects, results, conditions, negations.

All are in lower case, as the tokens of `claim_sentences` are. To teach Fleetlore a linter or a phrase, add a word here.
"""

import re

from fleetlore.dialects.commands.shell import make_word_set
from fleetlore.views.outcomes.facts import CheckKind

TEST_HEADS = make_word_set("tests test testsuite suite suites specs spec doctests testcases assertions")
# Before a colon only: "pytest: 88 passed".
TEST_TOOLS = make_word_set("pytest jest vitest mocha rspec phpunit playwright cypress ctest junit unittest bats exunit xctest")
CHECK_WORDS: dict[CheckKind, str] = {
    "lint": "lint lints linting linter linters lint-clean formatting format formatter fmt gofmt vet golangci-lint eslint"
    " ruff clippy rubocop prettier black flake8 pylint credo checkstyle spotless ktlint detekt swiftlint biome stylelint"
    " shellcheck hadolint oxlint standardrb phpcs pre-commit precommit rustfmt goimports gofumpt staticcheck actionlint markdownlint"
    " yamllint isort",
    "types": "types type-check type-checks typecheck typechecks type-checking typechecking type-checker typechecker"
    " mypy pyright tsc typescript basedpyright dialyzer sorbet phpstan psalm flow typing",
    "build": "build builds compile compiles compilation compiled built bundle bundles",
}
CHECK_HEADS: dict[str, CheckKind] = {word: kind for kind, text in CHECK_WORDS.items() for word in text.split()}
# "All checks pass", "everything is green", "all clean".
GENERAL_HEADS = make_word_set("checks everything gates verification validations pipeline criteria all both")
HOOK_WORDS = make_word_set("pre-commit precommit pre-push")
# After "checks" as a verb.
CHECK_OBJECTS = make_word_set("that if whether for the each every a an")
# A verb that is subject and result in one ("it builds cleanly"), if no object follows.
FUSED_VERBS = make_word_set("builds compiles typechecks type-checks lints compiled built lint-clean")
# What can follow such a verb if it has no object: "it builds on Windows", not "it builds all binaries".
VERB_FOLLOWERS = make_word_set(
    """cleanly successfully fine ok okay clean correctly green properly and but so on again now too without with locally under both either
    in everywhere everything standalone offline"""
)
BUILT_FOLLOWERS = make_word_set("cleanly successfully fine ok okay clean correctly green without ✅ ✓ ✔")
OK_WORDS = make_word_set(
    "pass passes passed passing green clean succeed succeeds succeeded successful successfully ok okay cleanly"
    " error-free warning-free happy success ✅ ✓ ✔ ☑ 🟢 fine"
)
CHECK_MARKS = make_word_set("✅ ✓ ✔ ☑ 🟢")
# These may have an object, and are then no result: "the test passes a context".
TRANSITIVE = make_word_set("pass passes passed builds compiles compiled built lints")
OBJECT_STARTS = make_word_set(
    "a an the its it this that these those through to by into them him her along down over his our your my their CODE each"
    " every any out up back user data values arguments args context flags"
)
ISSUE_WORDS = make_word_set(
    "issues issue errors error warnings warning problems problem violations offenses offences complaints failures failure"
    " failed failing regressions findings diagnostics"
)
NONE_WORDS = make_word_set("no zero 0 without")
GONE_WORDS = make_word_set("fixed resolved gone addressed cleared clean corrected")
# Between subject and result.
LIGHT_WORDS = make_word_set(
    "is are was were be been being have has had now all also still again both each every come comes came back remain remains"
    " stay stays keep keeps continue continues to run runs ran and they it that everything currently fully just fresh local"
    " locally i've with = : - – — → too well as completely entirely reports reported shows showed completes completed finished"
    " exit exits exited code status result results output return returns returned looks look"
)
SEPARATORS = make_word_set(", and & / + plus")
# Ends a statement: what comes before does not govern what comes after.
BREAKS = make_word_set("; — – ( ) but | · • → . then")

# Any of these before the result, in the same clause, and it is no statement of fact.
UNREAL_WORDS = make_word_set(
    "will 'll would should could can may might must shall if when whenever once whether unless until ensure ensures ensuring"
    " verify verifies verifying confirm check expect expects expected hope hopefully try trying need needs needed want wants"
    " going let lets next plan plans planned require requires required requirement assert asserts wait waiting so-that assuming"
    " suppose likely probably supposed before prior todo goal aim attempt attempts tries whichever where whose return returns"
    " i'll you'll we'll it'll they'll let's i'd we'd you'd case enforce enforces enforced gate gates prevents"
    " believe think assume guess suspect presumably seems unsure"
)
NOT_WORDS = make_word_set(
    "not never neither nor cannot can't don't doesn't didn't isn't aren't wasn't weren't haven't hasn't hadn't won't wouldn't"
    " couldn't shouldn't no without unable nothing none unverified untested uncommitted unpushed barely almost nearly partially"
    " skipped skip fail fails failed failing failure failures broken errored red"
)
# "All quality checks pass" is about tests too.
CHECK_ADJECTIVES = make_word_set(
    "quality acceptance success pre-commit precommit ci status required three four five six two verification automated pre-push final"
)
# "This makes the tests pass": what a change is for.
CAUSE_WORDS = make_word_set("make makes making lets help helps allow allows enable enables get gets getting")
DETERMINERS = make_word_set("all the our every both these those my its existing new unit integration")
PARTIAL_WORDS = make_word_set("only some most many few half several mostly")
# Words of somebody else, or of another time.
REPORTED_WORDS = make_word_set("says said claims claimed states stated according allegedly reportedly reads")
EARLIER_WORDS = make_word_set(
    "previously earlier originally initially before formerly yesterday baseline upstream used beforehand pre-change"
)
OTHER_SUBJECTS = make_word_set("you you've your he she they user users someone somebody reviewer colleague he's she's they've who")
EXCEPT_WORDS = make_word_set(
    "except excluding besides apart aside pre-existing preexisting unrelated flaky known other-than minus barring though although"
    " however skipped"
)
# Before "but": the sentence reports a failure.
FAILURE_WORDS = make_word_set(
    "still unrelated pre-existing preexisting fail fails failed failing failure failures timeout timeouts broken flaky red errors hangs"
)
IMPERATIVES = make_word_set(
    "run rerun re-run make ensure verify check confirm wait try please let note remember consider review merge push commit deploy"
    " see do don't add use open create test install set update change fix remove restart start go want would could should shall"
    " can may do does did is are am has have had will was were how what why which who"
)
# After "fix", "commit", "test" and the like: it is a noun, no instruction.
NOUN_FOLLOWERS = make_word_set(
    "pushed committed opened created succeeded successful completed passes passed is was has request requests results suite suites run runs"
    " complete"
)
HARD_CONDITIONS = make_word_set("if when whenever once unless until should whether assuming provided")
SOFT_CONDITIONS = make_word_set("after before while since with because for as following during given despite to")

ALL_WORDS = make_word_set("all every full entire whole complete everything each")
NO_PART = ALL_WORDS | make_word_set(
    "the a an and of our my its these those this that now both existing new other remaining related relevant added updated with"
    " tests test suite suites specs spec cases case run runs also still again are is were was have has had been i we i've"
    " successfully verified confirmed ran re-ran running executed checked made sure no 0 zero my your their it they then just"
    " passing green local automated current of in on for from to by total project's project repo's repo repository codebase"
    " linting lint build builds types type checks check fmt formatting typecheck mypy ruff done finally fixed , : ( ) — – ; ✅"
)
NEW_PART = make_word_set("new added updated existing remaining related relevant affected")

RUNNERS = make_word_set(
    "npm yarn pnpm bun npx bunx go cargo mix make just mise task tox nox uv poetry python python3 pytest gradle ./gradlew gradlew"
    " mvn ./mvnw bazel bazelisk dotnet swift bundle rake rspec composer phpunit deno ctest cmake ninja sbt rebar3 zig flutter dart"
    " hatch pdm pre-commit golangci-lint ruff eslint mypy tsc jest vitest mocha playwright cypress rubocop flake8 black prettier"
    " biome pyright pylint clippy stack cabal turbo nx lerna moon earthly buck2 pants meson prove ginkgo gotestsum invoke doit"
    " ant xcodebuild elixir gleam lein clojure ruby php node tsx hurl bats ava tap lint-staged staticcheck shellcheck rustfmt"
    " manage.py docker podman terraform tofu helm next vite ng astro nuxt expo eas anchor forge hardhat pio phpstan"
)

# After "test": it is the subject of a statement, not part of a name.
TEST_FOLLOWERS = LIGHT_WORDS | OK_WORDS | make_word_set("suite suites cases run runs / failures failure file files")
LINKING_WORDS = LIGHT_WORDS | SEPARATORS
RESULT_WORDS = OK_WORDS | NONE_WORDS | ISSUE_WORDS
STOP_WORDS = (NOT_WORDS | UNREAL_WORDS | make_word_set("; . ? ❌ ✗ ✘")) - RESULT_WORDS
# A sentence without any of these holds no claim of the kind.
CHECK_TRIGGERS = (
    TEST_HEADS
    | TEST_TOOLS
    | GENERAL_HEADS
    | frozenset(CHECK_HEADS)
    | make_word_set(
        "RUN_TESTS RUN_LINT RUN_TYPES RUN_BUILD RUN_CHECKS TEST_FILE ci type compiler syntax passed passing pass failures failed"
    )
)
PULL_TRIGGERS = make_word_set("pr prs mr mrs pull merge PULL_URL")
DONE_TRIGGERS = make_word_set("done finished complete completed set implemented ready addressed answered posted applied marked cleaned")
FIXED_TRIGGERS = make_word_set("fixed resolved corrected repaired longer works work working fix")
CHANGED_TRIGGERS = make_word_set(
    """added created updated removed deleted renamed moved changed replaced wrote rewrote rewritten refactored extracted converted
    switched bumped introduced documented registered modified reverted restored simplified cleaned split merged dropped wired made set
    enabled disabled configured installed exported generated inlined tightened extended reworked migrated now"""
)
# A text without any of these holds no claim at all, but for the id of a commit.
ALL_TRIGGERS = (
    CHECK_TRIGGERS
    | PULL_TRIGGERS
    | DONE_TRIGGERS
    | FIXED_TRIGGERS
    | CHANGED_TRIGGERS
    | make_word_set("committed amended pushed push force-pushed re-pushed commit commits")
)
# The same for text that is not cut into tokens yet: the longest part of each trigger, and the words of commands that become one.
TRIGGER_PARTS = frozenset(max(re.findall("[a-z]+", word.lower()), key=len) for word in ALL_TRIGGERS) | make_word_set(
    """check checks verify validate precommit tox nox types typecheck typing dialyzer vet jest vitest mocha rspec ctest phpunit playwright
    cypress bats ava tap assemble xcodebuild package bundle staticcheck shellcheck rustfmt requests request pullrequest pulls"""
)
TRIGGER_STEMS = ("test", "lint", "spotless", "compil")
