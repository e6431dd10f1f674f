r"""Removes secrets from events before they are stored; called by `log/admission.py`.

First the table of kinds, `RULES`, then the code that uses it. In a clean event only the needles of the rules are searched for; a
rule's pattern is compiled and run only if one of its needles is there. Standard library only, and one module, because `lore hook`
loads it.

To add a kind, add a row. `needles` are lower-case strings, one of which is in every text that the pattern matches. `{start}` in a
pattern means the start of a word, also directly behind an escape such as `\n` in JSON. The groups `before` and `after` are kept.
A pattern must need linear time.

Examples are shapes, so that no scanner takes this file for a leak: `{X20}` stands for 20 random letters and digits, `{a20}` for
letters, `{h32}` for hex digits, `{U16}` for capitals and digits, `{B64}` for base64 of `user:` and a random password. What stands
between « and » is the secret.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    import re

    from fleetlore._quick import Words

MASK = "[redacted]"
WITHHELD = "[withheld: the redact patterns took too long]"
"""Replaces a text for which the user's own patterns took too long."""

# --- The table

START = r"(?:(?<![A-Za-z0-9_])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4}))"
"""A word starts here."""


class SecretRule(NamedTuple):
    """One kind of secret."""

    name: str
    needles: tuple[str, ...]
    pattern: str
    examples: tuple[str, ...]
    ignore_case: bool = False
    is_token: bool = False
    """Whether it has no quotes, spaces or line breaks, so that it looks the same in JSON."""
    is_backwards: bool = False
    """Whether the pattern is for the text read backwards, so that it begins with what is fixed."""
    has_word: bool = False
    """Whether a value stands behind one of `SECRET_WORDS`, or a header's value: `redact.py` has one expression for all of these."""
    anchors: tuple[str, ...] = ()
    """Lower-case strings, with one of which every match begins, if there are such: the pattern is tried only there."""
    also: str = ""
    """Another lower-case string that is in every text that the pattern matches."""


def _token(name: str, needles: str, pattern: str, *examples: str) -> SecretRule:
    anchors = ("sk",) if needles.startswith("sk") else ()
    return SecretRule(name, tuple(needles.split()), f"{{start}}(?:{pattern})", examples, is_token=True, anchors=anchors)


_TOKENS = (
    # Models
    _token("model key", "sk-", r"sk-[A-Za-z0-9_-]{16,}", "«sk-ant-api03-{X93}AA»", "«sk-proj-{X120}»", "«sk-{X48}»", "«sk-or-v1-{h64}»"),
    _token("Hugging Face token", "hf_", r"hf_[A-Za-z0-9]{20,}", "«hf_{X34}»"),
    _token("Groq key", "gsk_", r"gsk_[A-Za-z0-9]{20,}", "«gsk_{X52}»"),
    _token("xAI key", "xai-", r"xai-[A-Za-z0-9]{20,}", "«xai-{X80}»"),
    _token("Perplexity key", "pplx-", r"pplx-[A-Za-z0-9]{20,}", "«pplx-{X48}»"),
    _token("Replicate token", "r8_", r"r8_[A-Za-z0-9]{30,}", "«r8_{X37}»"),
    _token("LangSmith key", "lsv2_", r"lsv2_(?:pt|sk)_[A-Za-z0-9_]{30,}", "«lsv2_pt_{h32}_{h10}»"),
    # Clouds. A secret access key often stands right behind its id, as in the CSV file that the console offers.
    _token("AWS key", "akia asia abia", r"A(?:KI|SI|BI)A[A-Z0-9]{16}(?![A-Za-z0-9])", "«AKIA{U16}»", "«ASIA{U16}»"),
    _token("Google API key", "aiza", r"AIza[A-Za-z0-9_-]{30,}", "«AIza{X35}»"),
    _token("Google OAuth token", "ya29.", r"ya29\.[A-Za-z0-9._-]{20,}", "«ya29.{X120}»"),
    _token("Google OAuth secret", "gocspx-", r"GOCSPX-[\w-]{20,}", "«GOCSPX-{X28}»"),
    _token("Google authorisation key", "aq.", r"AQ\.[A-Za-z0-9_-]{40,}", "«AQ.{X50}»"),
    _token(
        "Azure AD secret",
        "0q~ 1q~ 2q~ 3q~ 4q~ 5q~ 6q~ 7q~ 8q~ 9q~",
        r"[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~.-])",
        "«{X3}8Q~{X34}»",
    ),
    _token("DigitalOcean token", "_v1_", r"do[opr]_v1_[a-f0-9]{40,}", "«dop_v1_{h64}»"),
    _token("Fly token", "fm1 fm2_", r"fm(?:1[ar]|2)_[A-Za-z0-9+/=_,-]{40,}", "FlyV1 «fm2_{X100}»"),
    _token("Databricks token", "dapi", r"dapi[a-f0-9]{32}(?:-\d)?(?![A-Za-z0-9])", "«dapi{h32}»"),
    _token("Supabase token", "sbp_ sb_secret_", r"(?:sbp_[a-f0-9]{40}|sb_secret_[\w-]{20,})", "«sbp_{h40}»"),
    _token("Heroku key", "hrku-", r"HRKU-[A-Za-z0-9_-]{30,}", "«HRKU-{X60}»"),
    _token("PlanetScale secret", "pscale_", r"pscale_(?:tkn|pw|oauth)_[\w.=-]{30,}", "«pscale_tkn_{X43}»"),
    _token("Netlify token", "nfp_", r"nfp_[A-Za-z0-9]{36,}", "«nfp_{X36}»"),
    _token("Tailscale key", "tskey-", r"tskey-[a-z]+-[A-Za-z0-9-]{16,}", "«tskey-auth-{X16}-{X32}»"),
    # Forges and their machines
    _token("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{20,}", "«ghp_{X36}»", "«ghs_{X36}»"),
    _token("GitHub fine-grained token", "github_pat_", r"github_pat_[A-Za-z0-9_]{20,}", "«github_pat_{X22}_{X59}»"),
    _token(
        "GitLab token",
        "glpat- glrt- gldt- glptt- glft- glimt- gloas- glsoat- glagent- glcbt-",
        r"gl(?:pat|rt|dt|ptt|ft|imt|oas|soat|agent|cbt)-[A-Za-z0-9_.-]{16,}",
        *("«glpat-{X20}»", "«glrt-{X20}»", "«gldt-{X20}»", "«glcbt-64_{X20}»"),
    ),
    _token("Atlassian token", "atatt3 atctt3 atbb", r"AT(?:[AC]TT3[\w=.-]{50,}|BB[A-Za-z0-9]{24,})", "«ATATT3xFfGF0{X180}»", "«ATBB{X32}»"),
    _token("Buildkite token", "bkua_", r"bkua_[a-z0-9]{40}", "«bkua_{h40}»"),
    _token("CircleCI token", "ccipat_", r"CCIPAT_[A-Za-z0-9_]{30,}", "«CCIPAT_{X22}_{h40}»"),
    # Package registries
    _token("npm token", "npm_", r"npm_[A-Za-z0-9]{20,}", "«npm_{X36}»"),
    _token("PyPI token", "pypi-", r"pypi-[\w-]{40,}", "«pypi-AgEIcHlwaS5vcmc{X80}»"),
    _token("Docker token", "dckr_pat_ dckr_oat_", r"dckr_[po]at_[\w-]{16,}", "«dckr_pat_{X27}»"),
    _token("RubyGems key", "rubygems_", r"rubygems_[a-f0-9]{48}", "«rubygems_{h48}»"),
    # Chat, mail and payment
    _token("Slack token", "xox", r"xox[a-z]-[A-Za-z0-9-]{10,}", "«xoxb-123456789012-{X24}»"),
    _token("Slack app token", "xapp-", r"xapp-\d-[A-Za-z0-9-]{16,}", "«xapp-1-{U11}-1234567890123-{h64}»"),
    _token("Telegram bot token", ":aa", r"(?:bot)?\d{8,10}:AA[\w-]{33}(?![\w-])", "«bot123456789:AA{X33}»", "«123456789:AA{X33}»"),
    _token("payment key", "k_live_ k_test_", r"[rs]k_(?:live|test)_[A-Za-z0-9]{10,}", "«sk_live_{X24}»", "«rk_live_{X24}»"),
    _token("webhook secret", "whsec_", r"whsec_\w{16,}", "«whsec_{X32}»"),
    _token("SendGrid key", "sg.", r"SG\.[\w-]{16,}\.[\w-]{16,}", "«SG.{X22}.{X43}»"),
    _token("Mailgun key", "key-", r"key-[a-f0-9]{32}(?![A-Za-z0-9])", "«key-{h32}»"),
    _token("Twilio key", "sk0 sk1 sk2 sk3 sk4 sk5 sk6 sk7 sk8 sk9 ska skb skc skd ske skf", r"SK[a-f0-9]{32}(?![A-Za-z0-9])", "«SK{h32}»"),
    _token("Square token", "eaaa sq0", r"(?:EAAA[\w-]{40,}|sq0[a-z]{3}-[\w-]{20,})", "«EAAA{X60}»", "«sq0csp-{X43}»"),
    _token("Shopify token", "shpat_ shpca_ shppa_ shpss_", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}", "«shpat_{h32}»"),
    # Services
    _token("Vault token", "hvs. hvb. hvr.", r"hv[sbr]\.[A-Za-z0-9_-]{24,}", "«hvs.{X90}»"),
    _token("Terraform token", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,}", "«{X14}.atlasv1.{X60}»"),
    _token("Linear key", "lin_api_ lin_oauth_", r"lin_(?:api|oauth)_[A-Za-z0-9]{30,}", "«lin_api_{X40}»"),
    _token("Notion token", "ntn_", r"ntn_[A-Za-z0-9]{40,}", "«ntn_{X46}»"),
    _token("Grafana token", "glsa_ glc_", r"(?:glsa_[A-Za-z0-9]{32}_[a-f0-9]{8}|glc_[A-Za-z0-9+/=]{32,})", "«glsa_{X32}_{h8}»"),
    _token("Sentry token", "sntry", r"sntry[su]_[A-Za-z0-9+/=_-]{40,}", "«sntrys_{X80}»"),
    _token("New Relic key", "nrak- nrii- nrjs-", r"NR(?:AK|II|JS)-[A-Za-z0-9_-]{20,}", "«NRAK-{U27}»"),
    _token("Doppler token", "dp.pt. dp.st. dp.ct. dp.sa.", r"dp\.(?:pt|st|ct|sa)\.[A-Za-z0-9._-]{32,}", "«dp.pt.{X43}»"),
    _token("Postman key", "pmak-", r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}", "«PMAK-{h24}-{h34}»"),
    _token("Figma token", "figd_", r"figd_[\w-]{30,}", "«figd_{X40}»"),
    _token("PostHog key", "phx_", r"phx_[A-Za-z0-9]{40,}", "«phx_{X43}»"),
    _token("Dynatrace token", "dt0c01.", r"dt0c01\.[A-Z0-9]{24}\.[A-Z0-9]{64}", "«dt0c01.{U24}.{U64}»"),
    _token("our own token", "lore_", r"lore_[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])", "«lore_{X43}»"),  # log/tokens.py
    _token("age key", "age-secret-key-", r"AGE-SECRET-KEY-1\w{20,}", "«AGE-SECRET-KEY-1{U58}»"),
    SecretRule(
        "JSON web token",
        ("eyj",),
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",
        ("«eyJhbGciOiJIUzI1NiJ9.{X40}.{X43}»",),
        is_token=True,
    ),
)

SECRET_WORDS = r"password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|secret[_-]?key|client[_-]?secret"
ENDS_OF_NAMES = ("=", ":", " =", '"', "\\")
"""What stands behind a name in front of its value, in text and in JSON."""
_WORD_ANCHORS = ("password", "passwd", "passphrase", "secret", "token", "api", "access", "private", "client")
WORD_NEEDLES = ("password", "passwd", "passphrase", "secret", "token", "key")
# Between a name and its value, in text that may have been quoted once more.
_BEFORE_VALUE = r"\\*[\"']?\s*"
# A number alone is a count: token=4096.
_NOT_A_COUNT = r"(?!\d+(?:[\s\"',;&)\]}]|$))(?!\[redacted\])"
# Code that fetches a secret does not contain it.
_NOT_CODE = (
    r"(?!(?:None|null|true|false|await|self|this)\b)(?![A-Za-z_][\w.]*[(\[])"
    # token = Keyword.Reserved, password=password, client_secret=self_client_secret
    r"(?!(?:[A-Za-z_]+\.)+[A-Za-z_]+(?:[\s,;)]|$))(?!(?:\w{0,40}_)?(?:password|secret|token|key)(?:[\s,;)]|$))"
)
_VALUE = r"[^\s\"',;&)\]}\\]"
# What stands in examples and in types instead of a password.
_NOT_A_PASSWORD = (
    r"(?!(?:string|boolean|number|integer|object|array|optional|required|undefined|password|passwords|username|unknown|encrypted|disabled"
    r"|enabled|missing|invalid|incorrect|protected|redacted|confidential|sensitive|available|provided|generated|supplied|specified|example"
    r"|nullable|readonly|writeonly|varchar|document|function|template|parameter|placeholder|sha256|authorized)\s*(?:$|\\))"
)


# What words such as password, SECRET, API_KEY and PRIVATE KEY look like inside base64, for each of the three ways to align them.
_IN_BASE64 = (
    "cGFzc3dvcm",
    "Bhc3N3b3Jk",
    "wYXNzd29yZ",
    "UEFTU1dPUk",
    "BBU1NXT1JE",
    "QQVNTV09SR",
    "cGFzc3dk",
    "Bhc3N3Z",
    "wYXNzd2",
    "U0VDUkVU",
    "NFQ1JFV",
    "TRUNSRV",
    "c2VjcmV0",
    "NlY3Jld",
    "zZWNyZX",
    "X1RPS0VO",
    "9UT0tFT",
    "fVE9LRU",
    "QVBJX0tFW",
    "FQSV9LRV",
    "BUElfS0VZ",
    "YXBpX2tle",
    "FwaV9rZX",
    "hcGlfa2V5",
    "UFJJVkFURSBLRV",
    "BSSVZBVEUgS0VZ",
    "QUklWQVRFIEtFW",
)
_IN_CONTEXT = (
    SecretRule(
        "private key",
        ("private key",),
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?:.*?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|.*\Z)",
        (
            "-----BEGIN RSA PRIVATE KEY-----\n«{X64}»\n«{X64}»\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN OPENSSH PRIVATE KEY-----\n«{X70}»\n",
            "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n«{X64}»\n=abcd\n-----END PGP PRIVATE KEY BLOCK-----",
        ),
    ),
    SecretRule(
        "end of a private key",
        ("private key",),
        r"(?P<before>-----(?:KCOLB )?YEK ETAVIRP[A-Z0-9 ]{0,20} DNE-----)"
        r"(?:(?:\s|[nr]?\\){1,8}[A-Za-z0-9+/=]{8,80}(?![A-Za-z0-9+/=])){1,2000}",
        ("«{X64}»\n«{X64}»\n«{X30}==»\n-----END RSA PRIVATE KEY-----",),
        is_backwards=True,
    ),
    SecretRule(
        "PuTTY key",
        ("private-lines",),
        r"(?P<before>Private-Lines: \d{1,4})(?:.{0,20000}?Private-MAC: [a-f0-9]{16,}|.*\Z)",
        ("PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 1\n«{X64}»\nPrivate-MAC: {h40}",),
    ),
    SecretRule(
        "AWS secret beside its id",
        ("akia", "asia", "abia"),
        r"(?P<before>\[redacted\][\s,;:|\"']{1,4})[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])",
        ("bob,AKIA{U16},«{X40}»",),
    ),
    SecretRule(
        "Azure key",
        ("accountkey=", "sharedaccesskey="),
        r"(?P<before>(?:AccountKey|SharedAccessKey)=)[A-Za-z0-9+/]{30,}={0,2}",
        ("AccountName=shop;AccountKey=«{X86}==»;EndpointSuffix=x",),
        ignore_case=True,
    ),
    SecretRule(
        "signature in a link",
        ("sig=", "signature=", "security-token="),
        r"(?P<before>[?&;](?:sig|signature|X-Amz-Signature|X-Amz-Security-Token|X-Goog-Signature)=)[A-Za-z0-9%+/_=-]{30,}",
        ("https://x.test/a?se=2026-01-01&sig=«{X43}%3D»", "https://x.test/a?X-Amz-Signature=«{h64}»"),
        ignore_case=True,
    ),
    SecretRule(
        "webhook of a chat",
        ("hooks.slack.com/", "/api/webhooks/"),
        r"(?P<before>(?:hooks\.slack\.com/(?:services|workflows)/T\w{4,20}/\w{4,20}/|/api/webhooks/\d{10,24}/))[\w-]{16,}",
        ("https://hooks.slack.com/services/T{U9}/B{U9}/«{X24}»", "https://discord.com/api/webhooks/123456789012345678/«{X68}»"),
    ),
    SecretRule(
        "Discord bot token",
        ("discord",),
        r"{start}[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}(?![A-Za-z0-9_-])",
        ("DISCORD=«M{X23}.{X6}.{X38}»",),
    ),
    SecretRule(
        "Airtable token",
        ("airtable",),
        r"{start}pat[A-Za-z0-9]{14}\.[a-f0-9]{64}",
        ("airtable «pat{X14}.{h64}»",),
        ignore_case=True,
    ),
    SecretRule(
        "authorization header",
        ("authorization",),
        r"(?P<before>{start}authorization[\"'\\]{0,4}\s*[:=]\s*[\"'\\]{0,4}\w+\s+)[A-Za-z0-9._~+/=-]{6,}",
        ("Authorization: Basic «{B64}»", "Authorization: Bearer «{X40}»", "Authorization: Bearer «{a40}»"),
        ignore_case=True,
        anchors=("authorization",),
        has_word=True,
    ),
    SecretRule(
        "bearer token",
        ("bearer",),
        r"(?P<before>{start}bearer\s+)(?:(?=[A-Za-z._~+/=-]*[0-9])[A-Za-z0-9._~+/=-]{12,}|(?=[A-Z]*[a-z]+[A-Z])[A-Za-z]{20,})",
        ("bearer «{X40}»",),
        ignore_case=True,
        anchors=("bearer",),
        has_word=True,
    ),
    SecretRule(
        "cookie",
        ("cookie",),
        r"(?P<before>{start}(?:set-)?cookie[\"'\\]{0,4}\s*:\s*[\"'\\]{0,4}[\w.-]{1,80}=)[^\s\"';,\\]{8,}",
        ("Cookie: sessionid=«{X32}»", "Set-Cookie: session=«{X48}»; Path=/"),
        ignore_case=True,
    ),
    SecretRule(
        "further value of a cookie",
        ("cookie",),
        r"(?P<before>(?:\[redacted\]|{start}cookie: [\w.-]{1,80}=\S{1,400});\s*[\w.-]{0,80}(?:sess|token|auth|sid|jwt)"
        r"[\w.-]{0,80}=)[^\s\"';,\\]{8,}",
        ("Cookie: theme=dark; sessionid=«{X32}»",),
        ignore_case=True,
    ),
    SecretRule(
        "password in an address",
        ("://",),
        r"(?P<before>://[^\s/:@\"'\\]{0,256}:)(?!\[redacted\])[^\s/\"'\\]{1,256}(?P<after>@)",
        ("postgres://ada:«{X16}»@db/shop", "redis://:«{X16}»@cache:6379", "mongodb+srv://ada:«{X16}»@x.test"),
        also="@",
    ),
    SecretRule(
        "password with a slash in an address",
        ("://",),
        r"(?P<before>\b(?:postgres(?:ql)?|mysql|mariadb|mongodb(?:\+srv)?|rediss?|amqps?|nats)://[^\s/:@\"'\\]{0,100}:)"
        r"(?!\[redacted\]|\d{1,5}[/?])[^\s\"'\\@]{1,200}(?P<after>@)",
        ("postgres://ada:«{X8}/{X8}»@db/shop",),
        ignore_case=True,
        also="@",
    ),
    SecretRule(
        "token as the user of an address",
        ("://",),
        r"(?P<before>https?://)(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{20,256}(?P<after>@)",
        ("git clone https://«{X52}»@dev.azure.test/team/_git/app",),
        also="@",
    ),
    SecretRule(
        "password of curl",
        ("curl", "wget"),
        r"(?P<before>{start}(?:curl|wget)\b[^\n|;&]{0,400}?\s(?:-u|--user|--proxy-user|-U)[ =]?\\*[\"']?[^\s:\"']{1,80}:)"
        r"(?!\[redacted\])[^\s\"'\\]{3,}",
        ("curl -s -u admin:«{X16}» https://x.test",),
    ),
    SecretRule(
        "password of a database client",
        ("mysql", "mariadb"),
        r"(?P<before>{start}(?:mysql|mysqldump|mysqladmin|mariadb|mariadb-dump)\b[^\n|;&]{0,300}?\s-p\\*[\"']?)(?!\[redacted\])[^\s\"'\\-][^\s\"'\\]{2,}",
        ("mysql -u root -p«{X16}» shop",),
    ),
    SecretRule(
        "password of sshpass",
        ("sshpass",),
        r"(?P<before>{start}sshpass\s+-p\s*\\*[\"']?)(?!\[redacted\])[^\s\"'\\]{3,}",
        ("sshpass -p «{X16}» ssh root@x.test",),
    ),
    SecretRule(
        "password of .netrc",
        ("password",),
        r"(?P<before>{start}login\s+\S{1,100}\s+password\s+)(?!\[redacted\])\S{3,200}",
        ("machine x.test login ada password «{X16}»",),
        also="login",
    ),
    SecretRule(
        "password of .pgpass",
        (":5432:", ":6432:", ":*:"),
        r"(?P<before>[\w.*-]{1,100}:(?:\d{4,5}|\*):[\w*-]{1,100}:[\w*-]{1,100}:)(?!\[redacted\])[^\s:\"'\\]{4,}",
        ("db.test:5432:shop:ada:«{X16}»",),
    ),
    SecretRule(
        "password hash",
        ("$2a$", "$2b$", "$2y$", "$apr1$", "$5$", "$6$", "$y$", "$argon2"),
        r"\$(?:2[aby]\$\d\d\$[./A-Za-z0-9]{53}|apr1\$[./A-Za-z0-9]{1,8}\$[./A-Za-z0-9]{22}|[56]\$(?:rounds=\d+\$)?[./A-Za-z0-9]{1,16}\$[./A-Za-z0-9]{43,86}"
        r"|y\$[./A-Za-z0-9$]{40,}|argon2\w{1,2}\$[^\s\"'\\]{30,})",
        ("ada:«$2y$10${X53}»",),
    ),
    SecretRule(
        "login of a registry",
        ('auth"', "auth\\", "_auth="),
        r"(?P<before>(?:\"auth\\*\"\s*:\s*\\*\"|\b_auth\s*=\s*[\"']?))(?!\[redacted\])[A-Za-z0-9+/]{12,}={0,2}",
        ('{"auths": {"x.test": {"auth": "«{B64}»"}}}', "//npm.x.test/:_auth=«{B64}»"),
    ),
    SecretRule(
        "values of a Kubernetes secret",
        ("kind: secret", '"kind":"secret"'),
        r"(?P<before>kind: Secret\b.{0,2000}?(?:\n|\\n)\s*(?:data|stringData):\s*"
        r"(?:\n|\\n)\s+[\w.-]{1,80}: *\\*[\"']?)(?!\[redacted\])[^\s\"'\\]{4,}",
        ("apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\ndata:\n  pw: «{B64}»\n",),
    ),
    SecretRule(
        "secret in base64",
        tuple(sorted({form.lower() for form in _IN_BASE64})),
        rf"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]*?(?:{'|'.join(_IN_BASE64)})[A-Za-z0-9+/]*={{0,2}}",
        ("echo «QVBJX0tFWT1{X24}» | base64 -d",),
        is_token=True,
    ),
    SecretRule(
        "seed phrase",
        ("mnemonic", "seed", "recovery phrase"),
        r"(?P<before>\b(?:mnemonic|seed|seed[ _-]?(?:phrase|words)|recovery[ _-]phrase)[\"'\\]{0,4}\s*(?:[:=]|is)\s*"
        r"[\"'\\]{0,4})(?:[a-z]{3,8} ){11,23}[a-z]{3,8}",
        ("seed phrase: «" + "abandon ability able about above absent absorb abstract absurd abuse access accident»",),
        ignore_case=True,
    ),
    SecretRule(
        "password of ODBC",
        (";pwd=", "; pwd=", ";password="),
        r"(?P<before>;\s?(?:pwd|password)=)(?!\[redacted\])[^\s;\"'\\]{4,}",
        ("Server=db.test;Uid=ada;Pwd=«{X16}»;",),
        ignore_case=True,
    ),
    SecretRule(
        "key in the environment",
        tuple(f"_key{end}" for end in ENDS_OF_NAMES),
        rf"(?P<before>\b[A-Z][A-Z0-9_]*_KEY{_BEFORE_VALUE}[:=]\s*\\*[\"']?)(?=[A-Za-z+/_=-]*\d)(?=\d*[A-Za-z])[A-Za-z0-9+/=_-]{{24,}}",
        ("RAILS_MASTER_KEY=«{h32}»", "DD_APP_KEY=«{h40}»"),
    ),
    SecretRule(
        "named value in quotes",
        WORD_NEEDLES,
        rf"(?P<before>(?:{SECRET_WORDS}){_BEFORE_VALUE}(?:=>|[=:])\s*\\*(?P<quote>[\"']))(?!\[redacted\])[^\"'\\\n]{{2,}}(?P<after>\\*(?P=quote))",
        ('password: "«correct horse battery»"', 'password = "«{X16}»"'),
        ignore_case=True,
        anchors=_WORD_ANCHORS,
        has_word=True,
    ),
    SecretRule(
        "named value",
        WORD_NEEDLES,
        rf"(?P<before>(?:{SECRET_WORDS}){_BEFORE_VALUE}=\s*\\*[\"']?){_NOT_A_COUNT}{_NOT_CODE}{_VALUE}{{4,}}",
        ("AWS_SECRET_ACCESS_KEY=«{X40}»", "aws_session_token = «{X200}»", "TWILIO_AUTH_TOKEN=«{h32}»", "DD_API_KEY=«{h32}»"),
        ignore_case=True,
        anchors=_WORD_ANCHORS,
        has_word=True,
    ),
    SecretRule(
        "value of a flag",
        WORD_NEEDLES,
        rf"(?P<before>(?<!\S)--[\w-]{{0,40}}(?:{SECRET_WORDS})[ =][\"']?)(?!\[redacted\])[^\s\"']{{4,}}",
        ("gh auth login --token «{X16}»",),
        ignore_case=True,
        anchors=("--",),
        has_word=True,
    ),
    # The value must not look like a word of prose.
    SecretRule(
        "value behind a colon",
        WORD_NEEDLES,
        rf"(?P<before>(?:{SECRET_WORDS}){_BEFORE_VALUE}:\s*\\*[\"']?){_NOT_A_COUNT}{_NOT_CODE}"
        rf"(?=[^\s\"',;]{{0,200}}[0-9!#$%^&*+=~]){_VALUE}{{6,}}",
        ("X-Api-Key: «{h32}»", "X-Auth-Token: «{h32}»", "password: «{X16}»"),
        ignore_case=True,
        anchors=_WORD_ANCHORS,
        has_word=True,
    ),
    SecretRule(
        "password of digits",
        ("password", "passwd", "passphrase"),
        rf"(?P<before>(?:password|passwd|passphrase){_BEFORE_VALUE}[:=]\s*\\*[\"']?)\d{{4,}}",
        ("password: «12345678»",),
        ignore_case=True,
        anchors=("password", "passwd", "passphrase"),
        has_word=True,
    ),
    # On a line of its own, as in YAML; a type or a word of a form is none.
    SecretRule(
        "password of letters",
        ("password", "passwd"),
        rf"(?P<before>(?:(?m:^)|(?<=\\n))[ \t]*[\w.-]{{0,40}}(?:password|passwd):[ \t]+)"
        rf"{_NOT_A_PASSWORD}[a-z]{{8,40}}(?P<after>[ \t]*(?:(?m:$)|\\))",
        ("db:\n  password: «hunterhunter»\n",),
        ignore_case=True,
        has_word=True,
    ),
    SecretRule(
        "password in the environment",
        tuple(f"_{word}{end}" for word in ("pass", "pwd", "auth", "dsn") for end in ENDS_OF_NAMES),
        rf"(?P<before>\b[A-Z][A-Z0-9_]*_(?:PASS|PWD|AUTH|DSN)\\*[\"']?\s*[:=]\s*\\*[\"']?){_NOT_A_COUNT}(?![$<{{/.~]|0x|\w+://){_VALUE}{{6,}}",
        ("DB_PASS=«{X16}»", "DB_PWD=«{X16}»"),
    ),
)

RULES: tuple[SecretRule, ...] = (*_TOKENS, *_IN_CONTEXT)
"""In the order in which they are run."""

# --- Searching for needles

# A secret word counts only if a value follows: `token=…`, `"token": "…"`, `--token …`.
_FOLLOWED_BY_VALUE = r"(?=[\\\"'\s]*[=:])"


def _secret_word_pattern(rest: str, *words: str) -> str:
    """Match a secret word from one of its rarer letters on: the rest of it, then lookbehinds for its start."""
    lookbehind = "|".join(f"(?<={word})" for word in words)
    flag = "|".join(f"(?<=-{word})" for word in words)
    return f'(?i:{rest}(?:{lookbehind})(?:{_FOLLOWED_BY_VALUE}|(?:{flag})[ "]))'


_KEY_WORDS = ("api[_-]key", "apikey", "access[_-]key", "accesskey", "private[_-]key", "privatekey", "secret[_-]key", "secretkey")
_K_PATTERNS = (_secret_word_pattern("en", "token"), _secret_word_pattern("ey", *_KEY_WORDS))
_W_PATTERNS = (_secret_word_pattern("ord", "password"), _secret_word_pattern("d", "passwd"))
_C_PATTERNS = (_secret_word_pattern("ret", "secret"), _secret_word_pattern("redentials?", "credential", "credentials"))
_P_PATTERN = _secret_word_pattern("hrase", "passphrase")
_AUTHORIZATION_PATTERN = "(?i:ation(?<=authorization))"
_BEARER_PATTERN = r"(?i:earer(?:\s|\\t))"

# Keyed by a letter that is rare in text, with what follows it and a lookbehind for what precedes it: the engine then
# skips most of the text without trying anything. Written plainly, the same search takes four times as long.
_WORDS_BY_LETTER = {
    "k": _K_PATTERNS,
    "K": _K_PATTERNS,
    "w": _W_PATTERNS,
    "W": _W_PATTERNS,
    "p": (_P_PATTERN,),
    "P": (_P_PATTERN,),
    "c": _C_PATTERNS,
    "C": _C_PATTERNS,
    "z": (_AUTHORIZATION_PATTERN,),
    "Z": (_AUTHORIZATION_PATTERN,),
    "b": (_BEARER_PATTERN,),
    "B": (_BEARER_PATTERN,),
}
_WORD_PATTERN = "|".join(f"{letter}(?:{'|'.join(rests)})" for letter, rests in _WORDS_BY_LETTER.items())
"""Matches in every text in which a secret follows one of the usual words."""

_OTHER_KEYS = ('_pass"', '_pwd"', '"auth"', '"_auth"')
"""Keys of secret values without one of the usual words."""
_KEY_NEEDLES = (*WORD_NEEDLES, "authorization", "credential", *_OTHER_KEYS)
_WORD_START_NEEDLES = frozenset(("sk-", *(f"sk{digit}" for digit in "0123456789abcdef")))
"""Needles that count only at the start of a word: `task-7` has none."""
_NEEDLES = tuple(sorted({*_KEY_NEEDLES, *(needle for rule in RULES for needle in rule.needles)} - _WORD_START_NEEDLES))
_ENCODED_NEEDLES = tuple(needle.encode() for needle in _NEEDLES)
_ENCODED_WORD_STARTS = tuple(sorted(needle.encode() for needle in _WORD_START_NEEDLES))
_INTERFACE = 3
"""Of the C extension; an older one knows too few needles."""

# {"id":"<36 characters>","at":"2026-11-15T20:23:12.000000Z",
_HEADER_BYTES = 80


_SECRET_KEY_PATTERN = rf"(?:{SECRET_WORDS}|authorization|credentials?|_pass|_pwd)$"
# The files of registries keep a name and a password as base64.
_LOGIN_KEYS = ("auth", "_auth")
_LOGIN_PATTERN = r"[A-Za-z0-9+/]{12,}={0,2}"
_NUMERIC_SECRET_PATTERN = r"(?:password|passwd|passphrase|secret)$"
_SECRET_FLAG_PATTERN = rf"--[\w-]{{0,40}}(?:{SECRET_WORDS})"

_Value = TypeVar("_Value")


class Redactor:
    """Finds secrets in any JSON value; `extra` are the user's own regular expressions."""

    def __init__(self, extra: Sequence[str] = ()) -> None:
        self._extra = tuple(extra)

    @property
    def has_extra_patterns(self) -> bool:
        """Whether there are user-defined patterns."""
        return bool(self._extra)

    def may_contain_secret(self, raw: bytes) -> bool:
        """Return whether JSON bytes may contain a secret. Cheap; false positives are possible, false negatives are not."""
        if self._extra:
            return True  # they are for the decoded text and cannot be tried on JSON
        if (fast_search := secret_word_search()) is not None and not fast_search.found_in(raw):
            return False
        start = 0
        if raw.startswith(b'{"id":"') and (text_start := raw.find(b'"text":')) > _HEADER_BYTES:
            if _may_names_match_rules(raw[_HEADER_BYTES:text_start]):
                return True
            start = text_start
        return _may_match_rules(raw[start:])

    def redact_value(
        self, value: _Value, *, harmless: Container[str] = (), fixed_keys: Container[str] = (), raw: bytes | None = None
    ) -> tuple[_Value, int]:
        """Return the value without its secrets, and how many there were.

        Values under `harmless` keys are not treated as secrets because of the key. User patterns do not change `fixed_keys`, the
        keys of a format. A text for which the user patterns take too long is withheld as a whole. `raw` is JSON that holds the value,
        if there is some: it is searched instead of all texts of the value.
        """
        mask = _Mask(harmless)
        cleaned: _Value = _redact_nested(value, mask, _find_needles_in_value(value) if raw is None else _find_needles_in_json(raw))
        if self._extra:
            cleaned = _mask_user_patterns(cleaned, self._extra, mask, fixed_keys)
        return cleaned, mask.found


def name_secrets(value: Any) -> list[str]:
    """The kinds of secrets in a value, each once, for people; never the secrets themselves."""
    index, names = _find_needles_in_value(value), list[str]()
    for text in _texts_in(value, ()):
        for rule, pattern in _find_rules(text.lower(), index):
            if pattern.search(text[::-1] if rule.is_backwards else text):
                names.append(rule.name)
    return list(dict.fromkeys(names))


@cache
def secret_word_search() -> Words | None:
    """Return a compiled search for the needles, or `None` if the C extension is not built or too old."""
    try:
        from fleetlore import _quick
    except ImportError:
        return None
    return _quick.Words(_ENCODED_NEEDLES, _ENCODED_WORD_STARTS) if getattr(_quick, "INTERFACE", 1) >= _INTERFACE else None


class _CompiledRule(NamedTuple):
    rule: SecretRule
    pattern: re.Pattern[str]


_Index: TypeAlias = Sequence[tuple[str, Sequence[int]]]
"""Needles, each with the numbers of its rules."""


def _find_needles(text: str) -> _Index:
    """The needles that are in a text."""
    index, fast_search = _index_needles(), secret_word_search()
    if fast_search is not None:
        return [index[number] for number in fast_search.numbers_in(text.encode(errors="replace"))]
    lowered = text.lower()
    return [entry for entry in index if entry[0] in lowered]


def _find_needles_in_json(raw: bytes) -> _Index:
    """At least the needles that are in the texts of a JSON value: only quotes and backslashes are escaped, so these are put back."""
    fast_search = secret_word_search()
    unescaped = raw.replace(b'\\"', b'"')
    if fast_search is None:
        return _find_needles(unescaped.decode(errors="replace"))
    index = _index_needles()
    return [index[number] for number in fast_search.numbers_in(unescaped)]


def _find_needles_in_value(value: Any) -> _Index:
    texts: list[str] = []
    _collect_texts(value, texts)
    return _find_needles("\n".join(texts))


def _find_rules(lowered: str, index: _Index) -> list[_CompiledRule]:
    """The rules that may match in a text, in their order."""
    numbers = {number for needle, rules in index if needle in lowered for number in rules}
    return [_compile_rule(number) for number in sorted(numbers) if RULES[number].also in lowered]


@cache
def _index_needles() -> _Index:
    """All needles, in the order of the compiled search."""
    needles = (*_NEEDLES, *sorted(_WORD_START_NEEDLES))
    return [(needle, [number for number, rule in enumerate(RULES) if needle in rule.needles]) for needle in needles]


@lru_cache(maxsize=4096)
def _may_names_match_rules(part: bytes) -> bool:
    """The part of an event between its stamps and its text, kind and names, recurs."""
    return _may_match_rules(part)


def _may_match_rules(raw: bytes) -> bool:
    """Whether a rule may match in this JSON, or one of its keys may make a value secret."""
    if _compile_words().search(raw):
        return True
    text = raw.decode(errors="replace")
    lowered = text.lower()
    if any(key in lowered for key in _OTHER_KEYS):
        return True
    rules = _find_rules(lowered, _find_needles(text))
    return any(not rule.is_token or pattern.search(text) for rule, pattern in rules if not rule.has_word)


class _Mask:
    """Replaces secrets and counts them."""

    def __init__(self, harmless: Container[str]) -> None:
        self.found = 0
        self.harmless = harmless

    def __call__(self, match: re.Match[str]) -> str:
        groups = match.groupdict()
        return f"{groups.get('before') or ''}{self.mask_value()}{groups.get('after') or ''}"

    def backwards(self, match: re.Match[str]) -> str:
        return f"{match['before']}{self.mask_value()[::-1]}"

    def mask_value(self) -> str:
        self.found += 1
        return MASK


class _SecretContext(NamedTuple):
    """Whether the keys above a value make its strings, or also its numbers, secret, or only strings that look like a login."""

    strings: bool = False
    numbers: bool = False
    logins: bool = False


_NO_SECRET_CONTEXT = _SecretContext()


def _redact_nested(value: Any, mask: _Mask, index: _Index, context: _SecretContext = _NO_SECRET_CONTEXT) -> Any:
    if isinstance(value, str):
        if context.strings or (context.logins and _compile_expression(_LOGIN_PATTERN).fullmatch(value)):
            return value if value in ("", MASK) else mask.mask_value()
        return _redact_text(value, mask, index)
    if isinstance(value, dict):
        return _redact_dict(value, mask, index, context)
    if isinstance(value, list):
        before = (None, *value)
        return [_redact_nested(item, mask, index, _context_from_flag(flag, context)) for flag, item in zip(before, value, strict=False)]
    if context.numbers and isinstance(value, int | float) and not isinstance(value, bool):
        return mask.mask_value()
    return value


def _redact_dict(value: dict[Any, Any], mask: _Mask, index: _Index, context: _SecretContext) -> dict[Any, Any]:
    """Most keys are plain and most values are texts or numbers, so these need no further calls."""
    cleaned, harmless = {}, mask.harmless
    for key, item in value.items():
        below = context
        if type(key) is str and len(key) < 100:
            if key not in harmless and not context.strings:
                below = _find_short_key_context(key) or context
            if not _is_plain_key(key):
                key = _redact_text(key, mask, index)
        else:
            below = context if key in harmless else _context_from_key(key, context)
            key = _redact_nested(key, mask, index)
        if below is _NO_SECRET_CONTEXT and type(item) is str:
            cleaned[key] = _redact_text(item, mask, index)
        elif below is _NO_SECRET_CONTEXT and type(item) is not dict and type(item) is not list:
            cleaned[key] = item
        else:
            cleaned[key] = _redact_nested(item, mask, index, below)
    return cleaned


@lru_cache(maxsize=4096)
def _is_plain_key(key: str) -> bool:
    """Whether no rule can match in a key; keys recur."""
    lowered = key.lower()
    return not any(needle in lowered for needle, _ in _index_needles())


def _redact_text(text: str, mask: _Mask, index: _Index) -> str:
    lowered = text.lower()
    for needle, _ in index:
        if needle in lowered:
            break
    else:  # most texts
        return text
    for rule, pattern in _find_rules(lowered, index):
        before = text
        if rule.is_backwards:
            text = pattern.sub(mask.backwards, text[::-1])[::-1]
        elif rule.anchors and len(lowered) == len(text):  # some capitals have a longer small letter
            text = _mask_at_anchors(text, lowered, mask, rule, pattern)
        else:
            text = pattern.sub(mask, text)
        if text != before:
            lowered = text.lower()
    return text


def _mask_at_anchors(text: str, lowered: str, mask: _Mask, rule: SecretRule, pattern: re.Pattern[str]) -> str:
    starts = {start for anchor in rule.anchors if anchor in lowered for start in _find_all(anchor, lowered)}
    if not starts:
        return text
    parts, end = list[str](), 0
    for start in sorted(starts):
        if start >= end and (match := pattern.match(text, start)):
            parts += (text[end:start], mask(match))
            end = match.end()
    return "".join((*parts, text[end:])) if parts else text


def _find_all(part: str, text: str) -> Iterator[int]:
    start = text.find(part)
    while start >= 0:
        yield start
        start = text.find(part, start + 1)


def _mask_user_patterns(value: Any, extra: tuple[str, ...], mask: _Mask, fixed_keys: Container[str]) -> Any:
    """Mask everything that the user's own patterns match."""
    from fleetlore.user_patterns import patterns_of

    texts = list(dict.fromkeys(text for text in _texts_in(value, fixed_keys) if text not in ("", MASK, WITHHELD)))
    results = dict(zip(texts, patterns_of(extra).mask(texts, MASK), strict=True))

    def replace_in(value: Any) -> Any:
        if isinstance(value, str):
            result = results.get(value, (value, 0))
            mask.found += 1 if result is None else result[1]
            return WITHHELD if result is None else result[0]
        if isinstance(value, dict):
            keys = _number_lines(key if key in fixed_keys else replace_in(key) for key in value)
            return {key: replace_in(item) for key, item in zip(keys, value.values(), strict=True)}
        return [replace_in(item) for item in value] if isinstance(value, list) else value

    return replace_in(value)


def _number_lines(keys: Iterable[Any]) -> Iterator[Any]:
    """Yield keys, with a number added where masking made two of them equal."""
    seen: dict[Any, int] = {}
    for key in keys:
        seen[key] = number = seen.get(key, 0) + 1
        yield key if number == 1 else f"{key} ({number})"


def _texts_in(value: Any, fixed_keys: Container[str]) -> Iterator[str]:
    """Yield every string of a value, and every key that is not fixed."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in fixed_keys:
                yield from _texts_in(key, ())
            yield from _texts_in(item, fixed_keys)
    elif isinstance(value, list):
        for item in value:
            yield from _texts_in(item, fixed_keys)


def _collect_texts(value: Any, texts: list[str]) -> None:
    """Like `_texts_in`, with all keys that are not plain; a plain loop, because this runs for every suspicious event."""
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str) or len(key) >= 100 or not _is_plain_key(key):
                _collect_texts(key, texts)
            if isinstance(item, str):
                texts.append(item)
            elif isinstance(item, dict | list):
                _collect_texts(item, texts)
    elif isinstance(value, list):
        for item in value:
            _collect_texts(item, texts)


def _context_from_key(key: Any, above: _SecretContext) -> _SecretContext:
    """A value under a secret key is a secret whatever it looks like."""
    if above.strings or not isinstance(key, str):
        return above
    return (_find_key_context(key) if len(key) > 100 else _find_short_key_context(key)) or above


def _find_key_context(key: str) -> _SecretContext | None:
    if not _compile_expression(_SECRET_KEY_PATTERN).search(key):
        return _SecretContext(logins=True) if key.lower() in _LOGIN_KEYS else None
    return _SecretContext(True, _compile_expression(_NUMERIC_SECRET_PATTERN).search(key) is not None)


_find_short_key_context = lru_cache(maxsize=4096)(_find_key_context)


def _context_from_flag(before: Any, above: _SecretContext) -> _SecretContext:
    """So is the argument after a secret flag in a list of arguments."""
    if above.strings or not isinstance(before, str) or not before.startswith("--"):
        return above
    if not _compile_expression(_SECRET_FLAG_PATTERN).fullmatch(before):
        return above
    return _SecretContext(True, False)


@cache
def _compile_words() -> re.Pattern[bytes]:
    import re

    return re.compile(_WORD_PATTERN.encode())


@cache
def _compile_rule(number: int) -> _CompiledRule:
    import re

    rule = RULES[number]
    flags = re.DOTALL | (re.IGNORECASE if rule.ignore_case else 0)
    return _CompiledRule(rule, re.compile(rule.pattern.replace("{start}", START), flags))


@cache
def _compile_expression(source: str) -> re.Pattern[str]:
    import re

    return re.compile(source, re.IGNORECASE)
