"""Prices of models in US dollars per million tokens. docs/costs.md names the sources.

Columns: provider, model, first day on which the row is valid, and five prices: input, output, cache read, cache write
(5 minutes), cache write (1 hour). A dash in place of the day means that the row was always valid. A dash in place of a
price means the default: cache read 0.1 × input, cache write 1.25 × input, 1-hour cache write 2 × input. A model that is
known by two names has two rows.

Optional words follow:

    regional=X        multiply all prices by X in a cloud region (`us.anthropic.…`)
    fast=X            multiply all prices by X in fast mode
    each=N and 5 prices   for the tokens above N, counted for each kind of token
    all=N and 5 prices    for all tokens of a request that reads more than N tokens
"""

from __future__ import annotations

PRICES_DATE = "2026-11-16"
"""The day on which the figures were collected."""

PRICE_ROWS = """
anthropic claude-3-haiku          2024-03-07   0.25   1.25   0.03    0.3     -
anthropic claude-3-sonnet         2024-02-29   3     15      0.3     3.75    6
anthropic claude-3-opus           2024-02-29  15     75      1.5    18.75   30
anthropic claude-3-5-haiku        2024-10-22   0.8    4      0.08    1       1.6
anthropic claude-3-5-sonnet       2024-06-20   3     15      0.3     3.75    6
anthropic claude-3-7-sonnet       2025-02-19   3     15      0.3     3.75    6
anthropic claude-haiku-4-5        2025-10-01   1      5      0.1     1.25    2    regional=1.1
anthropic claude-sonnet-4         2025-05-14   3     15      0.3     3.75    6    each=200000 6 22.5 0.6 7.5 12
anthropic claude-4-sonnet         2025-05-14   3     15      0.3     3.75    6    each=200000 6 22.5 0.6 7.5 12
anthropic claude-sonnet-4-5       2025-09-29   3     15      0.3     3.75    6    regional=1.1 each=200000 6 22.5 0.6 7.5 12
anthropic claude-sonnet-4-6       -            3     15      0.3     3.75    6    regional=1.1
anthropic claude-sonnet-5         -            2     10      0.2     2.5     4    regional=1.1
anthropic claude-opus-4           2025-05-14  15     75      1.5    18.75   30
anthropic claude-4-opus           2025-05-14  15     75      1.5    18.75   30
anthropic claude-opus-4-1         2025-08-05  15     75      1.5    18.75   30
anthropic claude-opus-4-5         2025-11-01   5     25      0.5     6.25   10    regional=1.1
anthropic claude-opus-4-6         2026-02-05   5     25      0.5     6.25   10    regional=1.1 fast=6
anthropic claude-opus-4-7         2026-04-16   5     25      0.5     6.25   10    regional=1.1 fast=6
anthropic claude-opus-4-8         -            5     25      0.5     6.25   10    regional=1.1 fast=2
anthropic claude-opus-5           -            5     25      0.5     6.25   10    regional=1.1 fast=2
anthropic claude-fable-5          -           10     50      1      12.5    20    regional=1.1
anthropic claude-fable-5-1        -           10     50      0.25   12.5    20    regional=1.1
anthropic claude-mythos-preview   -           10     50      1      12.5    20
anthropic claude-mythos-5         -           10     50      1      12.5    20
anthropic claude-mythos-5-1       -           10     50      0.25   12.5    20
openai    gpt-4                   -           30     60      -       -       -
openai    gpt-4-turbo             2024-04-09  10     30      -       -       -
openai    gpt-4o                  2024-08-06   2.5   10      1.25    -       -
openai    gpt-4o-mini             2024-07-18   0.15   0.6    0.075   -       -
openai    gpt-4.1                 2025-04-14   2      8      0.5     -       -
openai    gpt-4.1-mini            2025-04-14   0.4    1.6    0.1     -       -
openai    gpt-4.1-nano            2025-04-14   0.1    0.4    0.025   -       -
openai    gpt-5                   2025-08-07   1.25  10      0.125   -       -
openai    gpt-5-mini              2025-08-07   0.25   2      0.025   -       -
openai    gpt-5-nano              2025-08-07   0.05   0.4    0.005   -       -
openai    gpt-5-pro               2025-10-06  15    120      -       -       -
openai    gpt-5-codex             2025-09-15   1.25  10      0.125   -       -
openai    gpt-5.1                 2025-11-13   1.25  10      0.125   -       -
openai    gpt-5.1-codex           2025-11-13   1.25  10      0.125   1.25    -
openai    gpt-5.1-codex-mini      2025-11-13   0.25   2      0.025   -       -
openai    gpt-5.1-codex-max       -            1.25  10      0.125   -       -
openai    gpt-5.2                 2025-12-11   1.75  14      0.175   1.75    -
openai    gpt-5.2-pro             2025-12-11  21    168      -       -       -
openai    gpt-5.2-codex           -            1.75  14      0.175   1.75    -
openai    gpt-5.3-codex           -            1.75  14      0.175   -       -    fast=2
openai    gpt-5.4                 2026-03-05   2.5   15      0.25    -       -    fast=2 all=272000 5 22.5 0.5 - -
openai    gpt-5.4-mini            2026-03-17   0.75   4.5    0.075   -       -
openai    gpt-5.4-nano            2026-03-17   0.2    1.25   0.02    -       -
openai    gpt-5.4-pro             2026-03-05  30    180      -       -       -    all=272000 60 270 - - -
openai    gpt-5.5                 2026-04-23   5     30      0.5     -       -    fast=2.5 all=272000 10 45 1 - -
openai    gpt-5.5-pro             2026-04-23  30    180      -       -       -    all=272000 60 270 - - -
openai    gpt-5.6                 2026-07-09   4     20      0.4     5       -    fast=2 all=272000 8 30 0.8 10 -
openai    gpt-5.6-sol             2026-07-09   4     20      0.4     5       -    fast=2 all=272000 8 30 0.8 10 -
openai    gpt-5.6-terra           2026-07-09   2     12      0.2     2.5     -    fast=2 all=272000 4 18 0.4 5 -
openai    gpt-5.6-luna            2026-07-09   0.2    1.2    0.02    0.25    -    fast=2 all=272000 0.4 1.8 0.04 0.5 -
openai    gpt-6-astra             2026-09-03  10     50      1      12.5     -    fast=2 all=272000 20 75 2 25 -
openai    codex-mini              -            1.5    6      0.375   -       -
openai    o1                      2024-12-17  15     60      7.5     -       -
openai    o1-mini                 2024-09-12   1.1    4.4    0.55    -       -
openai    o1-pro                  -          150    600      -       -       -
openai    o3                      2025-04-16   2      8      0.5     -       -
openai    o3-mini                 2025-01-31   1.1    4.4    0.55    -       -
openai    o3-pro                  -           20     80      -       -       -
openai    o4-mini                 2025-04-16   1.1    4.4    0.275   -       -
google    gemini-2.5-pro          -            1.25  10      0.125   -       -    all=200000 2.5 15 0.25 - -
google    gemini-2.5-flash        -            0.3    2.5    0.03    -       -
google    gemini-2.5-flash-lite   -            0.1    0.4    0.01    -       -
google    gemini-3-pro            -            2     12      0.2     -       -    all=200000 4 18 0.4 - -
google    gemini-3-flash          -            0.5    3      0.05    -       -
google    gemini-3.1-pro          -            2     12      0.2     -       -    all=200000 4 18 0.4 - -
google    gemini-3.1-flash-lite   -            0.25   1.5    0.025   -       -
google    gemini-3.5-flash        -            1.5    9      0.15    -       -
google    gemini-3.5-flash-lite   -            0.3    2.5    0.03    -       -
google    gemini-3.6-flash        -            0.75   3.75   0.075   -       -
google    gemini-3.7-flash        -            0.75   3.75   0.075   -       -
google    gemini-3.8-flash        -            0.75   3.75   0.075   -       -
xai       grok-3                  -            3     15      0.75    -       -
xai       grok-3-mini             -            0.3    0.5    0.075   -       -
xai       grok-4                  -            3     15      0.75    -       -
xai       grok-4-fast             -            0.2    0.5    0.05    -       -
xai       grok-4.5                -            2      6      0.3     -       -    all=200000 4 12 0.6 - -
xai       grok-4.6                -            2      6      0.5     -       -    all=200000 4 12 1 - -
xai       grok-code-fast-1        -            0.2    1.5    0.02    -       -
xai       grok-build-0.1          -            1      2      0.2     -       -    all=200000 2 4 0.4 - -
moonshot  kimi-k2-thinking        -            0.6    2.5    0.3     -       -
moonshot  kimi-k2.5               -            0.6    3      0.1     -       -
moonshot  kimi-k2.6               -            0.95   4      0.16    -       -
moonshot  kimi-k2.7-code          -            0.95   4      0.19    -       -
moonshot  kimi-k3                 -            3     15      0.3     -       -
zai       glm-4.5                 -            0.6    2.2    0.11    0       -
zai       glm-4.5-air             -            0.2    1.1    0.03    0       -
zai       glm-4.6                 -            0.6    2.2    0.11    0       -
zai       glm-4.7                 -            0.6    2.2    0.11    0       -
zai       glm-5                   -            1      3.2    0.2     0       -
zai       glm-5.1                 -            1.4    4.4    0.26    0       -
zai       glm-5.3                 -            1.4    4.4    0.26    0       -
deepseek  deepseek-v4-flash       -            0.14   0.28   0.0028  0.14    -
deepseek  deepseek-v4-pro         -            0.435  0.87   0.003625 0.435  -
qwen      qwen3-coder-plus        -            1      5      -       -       -
qwen      qwen3-coder-flash       -            0.3    1.5    -       -       -
mistral   devstral-2512           -            0.4    2      -       -       -
"""
"""One row per model name."""

CONTEXT_WINDOWS = (
    ("claude-", (200_000, 1_000_000)),
    ("gpt-5", (272_000, 400_000)),
    ("gpt-4.1", (1_047_576,)),
    ("gpt-4", (128_000,)),
    ("o3", (200_000,)),
    ("o4", (200_000,)),
    ("gemini-", (1_048_576,)),
)
"""First characters of a model's name → sizes of its context window, the usual one first."""
