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

from functools import cache, lru_cache

TYPE_CHECKING = False  # importing `typing` would cost `lore hook` a third of a bare `python`
if TYPE_CHECKING:
    import re
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeAlias, TypeVar

    from fleetlore._quick import Words

    _Value = TypeVar("_Value")
    _FoundRule: TypeAlias = tuple["SecretRule", int, tuple[str, ...]]
    """A rule, its number, and the anchors of the needles that were found."""

MASK = "[redacted]"
WITHHELD = "[withheld: the redact patterns took too long]"
"""Replaces a text for which the user's own patterns took too long."""

# --- The table

START = r"(?:(?<![A-Za-z0-9_])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4}))"
"""A word starts here."""


class SecretRule:
    """One kind of secret.

    `is_token`: it has no quotes, spaces or line breaks, so that it looks the same in JSON. `is_backwards`: the pattern is for the text
    read backwards, so that it begins with what is fixed. `has_word`: a value stands behind one of `SECRET_WORDS`, or a header's value,
    for all of which there is one expression. `anchors`: for each needle the strings with one of which a match with this needle begins;
    if given, the pattern is tried only there. `also`: another lower-case string that is in every text that the pattern matches.
    """

    def __init__(
        self,
        name: str,
        needles: tuple[str, ...],
        pattern: str,
        examples: tuple[str, ...],
        *,
        ignore_case: bool = False,
        is_token: bool = False,
        is_backwards: bool = False,
        has_word: bool = False,
        anchors: Mapping[str, tuple[str, ...]] | None = None,
        also: str = "",
    ) -> None:
        self.name, self.needles, self.pattern, self.examples = name, needles, pattern, examples
        self.ignore_case, self.is_token, self.is_backwards, self.has_word = ignore_case, is_token, is_backwards, has_word
        self.anchors, self.also = anchors or {}, also


def _token(name: str, needles: str, pattern: str, *examples: str) -> SecretRule:
    """A needle is the beginning of the token; with `*` in front it stands inside."""
    starts = () if "*" in needles else tuple(needles.split())
    anchors = {needle: (needle,) for needle in starts}
    return SecretRule(name, tuple(needles.replace("*", "").split()), f"{{start}}(?:{pattern})", examples, is_token=True, anchors=anchors)


_TOKENS = (
    # Models
    _token("model key", "sk-", r"sk-[A-Za-z0-9_-]{16,}", "«sk-ant-api03-{X93}AA»", "«sk-proj-{X120}»", "«sk-{X48}»", "«sk-or-v1-{h64}»"),
    _token("Hugging Face token", "hf_", r"hf_[A-Za-z0-9]{20,}", "«hf_{X34}»"),
    _token("Groq key", "gsk_", r"gsk_[A-Za-z0-9]{20,}", "«gsk_{X52}»"),
    _token("xAI key", "xai-", r"xai-[A-Za-z0-9]{20,}", "«xai-{X80}»"),
    _token("Perplexity key", "pplx-", r"pplx-[A-Za-z0-9]{20,}", "«pplx-{X48}»"),
    _token("Replicate token", "r8_", r"r8_[A-Za-z0-9]{30,}", "«r8_{X37}»"),
    _token("LangSmith key", "lsv2_", r"lsv2_(?:pt|sk)_[A-Za-z0-9_]{30,}", "«lsv2_pt_{h32}_{h10}»"),
    _token("NVIDIA key", "nvapi-", r"nvapi-[\w-]{40,}", "«nvapi-{X64}»"),
    _token("Cerebras key", "csk-", r"csk-[a-z0-9]{32,}", "«csk-{h48}»"),
    _token("Fireworks key", "fw_", r"fw_[A-Za-z0-9]{22,}", "«fw_{X24}»"),
    _token("Together key", "tgp_v1_", r"tgp_v1_[\w-]{30,}", "«tgp_v1_{X43}»"),
    _token("Jina key", "jina_", r"jina_[A-Za-z0-9_-]{40,}", "«jina_{X60}»"),
    _token("Tavily key", "tvly-", r"tvly-[A-Za-z0-9-]{20,}", "«tvly-{X32}»", "«tvly-dev-{X32}»"),
    _token("Firecrawl key", "fc-", r"fc-[a-f0-9]{32}(?![A-Za-z0-9])", "«fc-{h32}»"),
    _token("Voyage key", "pa-", r"pa-(?=[A-Za-z_-]{0,40}\d)[A-Za-z0-9_-]{40,}", "«pa-{X43}»"),
    _token("Pinecone key", "pcsk_", r"pcsk_\w{40,}", "«pcsk_{X6}_{X63}»"),
    _token("Weights & Biases key", "wandb_v1_", r"wandb_v1_\w{40,}", "«wandb_v1_{X77}»"),
    _token("voice or login key", "sk_", r"sk_(?:[a-f0-9]{48}|(?=[A-Za-z]{0,32}\d)[A-Za-z0-9]{32,})", "«sk_{h48}»"),
    _token("sandbox key", "e2b_ dtn_ bb_live_", r"(?:e2b_[a-f0-9]{40}|dtn_[a-f0-9]{64}|bb_live_[\w-]{20,})", "«e2b_{h40}»", "«dtn_{h64}»"),
    _token("LlamaCloud key", "llx-", r"llx-[A-Za-z0-9]{40,}", "«llx-{X48}»"),
    _token("Runpod key", "rpa_", r"rpa_[A-Za-z0-9]{30,}", "«rpa_{U40}»"),
    _token("Cursor key", "key_ crsr_", r"(?:key|crsr)_[a-f0-9]{64}", "«key_{h64}»"),
    _token("Bedrock key", "absk bedrock-api-key-", r"(?:ABSK[A-Za-z0-9+/]{60,}={0,2}|bedrock-api-key-[\w+/=-]{20,})", "«ABSK{X120}=»"),
    # Clouds. A secret access key often stands right behind its id, as in the CSV file that the console offers.
    _token("AWS key", "akia asia abia", r"A(?:KI|SI|BI)A[A-Z0-9]{16}(?![A-Za-z0-9])", "«AKIA{U16}»", "«ASIA{U16}»"),
    _token("Google API key", "aiza", r"AIza[A-Za-z0-9_-]{30,}", "«AIza{X35}»"),
    _token("Google OAuth token", "ya29.", r"ya29\.[A-Za-z0-9._-]{20,}", "«ya29.{X120}»"),
    _token("Google OAuth secret", "gocspx-", r"GOCSPX-[\w-]{20,}", "«GOCSPX-{X28}»"),
    _token("Google authorisation key", "aq.", r"AQ\.[A-Za-z0-9_-]{40,}", "«AQ.{X50}»"),
    _token(
        "Azure AD secret",
        " ".join(f"*{digit}q~" for digit in range(10)),
        r"[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~.-])",
        "«{X3}8Q~{X34}»",
    ),
    _token("DigitalOcean token", "doo_v1_ dop_v1_ dor_v1_", r"do[opr]_v1_[a-f0-9]{40,}", "«dop_v1_{h64}»"),
    _token("Fly token", "fm1 fm2_", r"fm(?:1[ar]|2)_[A-Za-z0-9+/=_,-]{40,}", "FlyV1 «fm2_{X100}»"),
    _token("Databricks token", "dapi", r"dapi[a-f0-9]{32}(?:-\d)?(?![A-Za-z0-9])", "«dapi{h32}»"),
    _token("Supabase token", "sbp_ sb_secret_", r"(?:sbp_[a-f0-9]{40}|sb_secret_[\w-]{20,})", "«sbp_{h40}»"),
    _token("Heroku key", "hrku-", r"HRKU-[A-Za-z0-9_-]{30,}", "«HRKU-{X60}»"),
    _token("PlanetScale secret", "pscale_", r"pscale_(?:tkn|pw|oauth)_[\w.=-]{30,}", "«pscale_tkn_{X43}»"),
    _token("Netlify token", "nfp_", r"nfp_[A-Za-z0-9]{36,}", "«nfp_{X36}»"),
    _token("Tailscale key", "tskey-", r"tskey-[a-z]+-[A-Za-z0-9-]{16,}", "«tskey-auth-{X16}-{X32}»"),
    _token("Alibaba key", "ltai", r"LTAI[A-Za-z0-9]{16,24}(?![A-Za-z0-9])", "«LTAI{X20}»"),
    _token("Tencent key", "akid", r"AKID[A-Za-z0-9]{32}(?![A-Za-z0-9])", "«AKID{X32}»"),
    _token("Yandex key", "aqvn t1.", r"(?:AQVN[\w-]{35,38}|t1\.[A-Z0-9a-z_-]{10,}={0,2}\.[\w-]{80,}={0,2})", "«AQVN{X36}»"),
    _token("Vercel token", "vcp_ vci_ vca_ vcr_ vck_", r"vc[piark]_[A-Za-z0-9]{24,}", "«vcp_{X56}»"),
    _token("Render key", "rnd_", r"rnd_[A-Za-z0-9]{26,}", "«rnd_{X28}»"),
    _token("Neon key", "napi_", r"napi_[a-z0-9]{40,}", "«napi_{h64}»"),
    _token("Aiven password", "avns_", r"AVNS_[\w-]{16,}", "«AVNS_{X19}»"),
    _token("Cockroach key", "ccdb1_", r"CCDB1_[A-Za-z0-9]{16,}_[A-Za-z0-9]{30,}", "«CCDB1_{X22}_{X40}»"),
    _token("Atlas secret", "mdb_sa_sk_", r"mdb_sa_sk_[\w-]{30,}", "«mdb_sa_sk_{X40}»"),
    _token("Elastic key", "essu_", r"essu_[A-Za-z0-9+/=_-]{40,}", "«essu_{X60}»"),
    _token("Pulumi token", "pul-", r"pul-[a-f0-9]{40}", "«pul-{h40}»"),
    _token("OpenShift token", "sha256~", r"sha256~[\w-]{43}(?![\w-])", "«sha256~{X43}»"),
    _token("Swarm token", "swmtkn-1-", r"SWMTKN-1-[a-z0-9]{40,}-[a-z0-9]{20,}", "«SWMTKN-1-{h50}-{h25}»"),
    _token(
        "Cloudflare token",
        "v1.0- cfut_ cfat_ cfk_",
        r"(?:v1\.0-[a-f0-9]{24}-[a-f0-9]{100,}|cf(?:ut|at|k)_[\w-]{40,})",
        "«v1.0-{h24}-{h146}»",
    ),
    _token(
        "Azure key with a mark",
        "*jqqj9 *azfu *+acr",
        r"[A-Za-z0-9_+/-]{20,60}(?:JQQJ9|AzFu|\+ACR)[A-Za-z0-9_+/-]{4,40}={0,2}",
        "«{X52}JQQJ99BAACYeBjFX{X20}»",
    ),
    _token("Prefect key", "pnu_ pnb_", r"pn[ub]_[A-Za-z0-9]{36}", "«pnu_{X36}»"),
    _token("Infracost key", "ico-", r"ico-[A-Za-z0-9]{32}(?![A-Za-z0-9])", "«ico-{X32}»"),
    _token("Scalingo token", "tk-us-", r"tk-us-[\w-]{40,}", "«tk-us-{X48}»"),
    _token("Harness token", "pat. sat.", r"[ps]at\.[\w-]{22}\.[a-f0-9]{24}\.[A-Za-z0-9]{20}", "«pat.{X22}.{h24}.{X20}»"),
    _token("Octopus key", "api-", r"API-[A-Z0-9]{25,32}(?![A-Za-z0-9])", "«API-{U26}»"),
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
    _token("CircleCI project token", "cciprj_", r"CCIPRJ_\w{30,}", "«CCIPRJ_{X22}_{h40}»"),
    _token("GitLab runner token", "gr1348941 glffct- glwt-", r"(?:GR1348941|glffct-|glwt-)[\w-]{16,}", "«GR1348941{X20}»"),
    _token(
        "Sourcegraph token",
        "sgp_ slk_",
        r"(?:sgp_(?:[a-f0-9]{16}_|local_)?[A-Za-z0-9]{40,}|slk_[a-f0-9]{64})",
        "«sgp_{h16}_{h40}»",
        "«slk_{h64}»",
    ),
    _token("Sonar token", "sqp_ squ_ sqa_", r"sq[pua]_[a-f0-9]{40}", "«squ_{h40}»"),
    # Package registries
    _token("npm token", "npm_", r"npm_[A-Za-z0-9]{20,}", "«npm_{X36}»"),
    _token("PyPI token", "pypi-", r"pypi-[\w-]{40,}", "«pypi-AgEIcHlwaS5vcmc{X80}»"),
    _token("Docker token", "dckr_pat_ dckr_oat_", r"dckr_[po]at_[\w-]{16,}", "«dckr_pat_{X27}»"),
    _token("RubyGems key", "rubygems_", r"rubygems_[a-f0-9]{48}", "«rubygems_{h48}»"),
    _token("JFrog key", "akcp cmvmdgtu", r"(?:AKCp[A-Za-z0-9]{50,}|cmVmdGtu[A-Za-z0-9]{50,})", "«AKCp{X69}»", "«cmVmdGtu{X56}»"),
    _token("Clojars token", "clojars_", r"CLOJARS_[a-z0-9]{60}", "«CLOJARS_{h60}»"),
    _token("NuGet key", "oy2", r"oy2[a-z0-9]{43}(?![a-z0-9])", "«oy2{h43}»"),
    _token("Cargo registry token", "cio", r"cio[A-Za-z0-9]{32}(?![A-Za-z0-9])", "«cio{X32}»"),
    # Chat, mail and payment
    _token("Slack token", "xox", r"xox[a-z]-[A-Za-z0-9-]{10,}", "«xoxb-123456789012-{X24}»"),
    _token("Slack app token", "xapp-", r"xapp-\d-[A-Za-z0-9-]{16,}", "«xapp-1-{U11}-1234567890123-{h64}»"),
    _token("Telegram bot token", "*:aa", r"(?:bot)?\d{8,10}:AA[\w-]{33}(?![\w-])", "«bot123456789:AA{X33}»", "«123456789:AA{X33}»"),
    _token(
        "payment key", "sk_live_ sk_test_ rk_live_ rk_test_", r"[rs]k_(?:live|test)_[A-Za-z0-9]{10,}", "«sk_live_{X24}»", "«rk_live_{X24}»"
    ),
    _token("webhook secret", "whsec_", r"whsec_\w{16,}", "«whsec_{X32}»"),
    _token("SendGrid key", "sg.", r"SG\.[\w-]{16,}\.[\w-]{16,}", "«SG.{X22}.{X43}»"),
    _token("Mailgun key", "key-", r"key-[a-f0-9]{32}(?![A-Za-z0-9])", "«key-{h32}»"),
    _token("Twilio key", " ".join(f"sk{digit}" for digit in "0123456789abcdef"), r"SK[a-f0-9]{32}(?![A-Za-z0-9])", "«SK{h32}»"),
    _token("Square token", "eaaa sq0", r"(?:EAAA[\w-]{40,}|sq0[a-z]{3}-[\w-]{20,})", "«EAAA{X60}»", "«sq0csp-{X43}»"),
    _token("Shopify token", "shpat_ shpca_ shppa_ shpss_ shptka_ shpua_", r"shp(?:at|ca|pa|ss|tka|ua)_[a-fA-F0-9]{32}", "«shpat_{h32}»"),
    _token("Brevo key", "xkeysib- xsmtpsib-", r"x(?:key|smtp)sib-[a-f0-9]{40,}-[A-Za-z0-9]{10,}", "«xkeysib-{h64}-{X16}»"),
    _token("Resend key", "re_", r"re_[A-Za-z0-9]{6,10}_[A-Za-z0-9]{22,26}(?![A-Za-z0-9_])", "«re_{X8}_{X24}»"),
    _token("MailerSend token", "mlsn.", r"mlsn\.[a-f0-9]{60,}", "«mlsn.{h64}»"),
    _token("Mailchimp key", "*-us1 *-us2 *-us3 *-us4 *-us5 *-us6 *-us7 *-us8 *-us9", r"[a-f0-9]{32}-us\d{1,2}(?!\w)", "«{h32}-us12»"),
    _token("Facebook token", "eaa", r"EAA[A-Za-z0-9]{80,}", "«EAACEdEose0cBA{X120}»"),
    _token("Twitter token", "aaaaaaaaaaaaaaaaaaa", r"A{19,22}(?!A)[A-Za-z0-9%]{60,}", "«AAAAAAAAAAAAAAAAAAAAA{X90}»"),
    _token("Dropbox token", "sl.", r"sl\.(?:u\.)?[\w-]{60,}", "«sl.{X120}»"),
    _token(
        "PayPal token",
        "access_token$",
        r"access_token\$(?:production|sandbox)\$[a-z0-9]{12,}\$[a-f0-9]{32}",
        "«access_token$production${h16}${h32}»",
    ),
    _token(
        "Plaid token",
        "access-sandbox- access-development- access-production-",
        r"access-(?:sandbox|development|production)-[a-f0-9-]{36}",
        "«access-production-{h8}-{h4}-{h4}-{h4}-{h12}»",
    ),
    _token("Flutterwave key", "flwseck", r"FLWSECK(?:_TEST)?-[A-Za-z0-9-]{20,}", "«FLWSECK_TEST-{h32}-X»"),
    _token(
        "shipping key",
        "shippo_ ezak eztk duffel_",
        r"(?:shippo_(?:live|test)_[a-f0-9]{40}|EZ[AT]K[A-Za-z0-9]{54}|duffel_(?:live|test)_[\w-]{40,})",
        "«shippo_live_{h40}»",
        "«EZAK{X54}»",
        "«duffel_live_{X43}»",
    ),
    _token(
        "Lob or GoCardless key",
        "live_",
        r"live_(?=[A-Za-z-]{0,35}\d)(?:[a-f0-9]{35}|[A-Za-z0-9-]{40})(?![\w-])",
        "«live_{h35}»",
        "«live_{X40}»",
    ),
    _token("Firebase key", "*:apa91b", r"[\w-]{11,22}:APA91b[\w-]{100,}", "«AAAA{X7}:APA91b{X134}»"),
    # Services
    _token("Vault token", "hvs. hvb. hvr.", r"hv[sbr]\.[A-Za-z0-9_-]{24,}", "«hvs.{X90}»"),
    _token("Terraform token", "*.atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,}", "«{X14}.atlasv1.{X60}»"),
    _token("Linear key", "lin_api_ lin_oauth_", r"lin_(?:api|oauth)_[A-Za-z0-9]{30,}", "«lin_api_{X40}»"),
    _token("Notion token", "ntn_", r"ntn_[A-Za-z0-9]{40,}", "«ntn_{X46}»"),
    _token("Grafana token", "glsa_ glc_", r"(?:glsa_[A-Za-z0-9]{32}_[a-f0-9]{8}|glc_[A-Za-z0-9+/=]{32,})", "«glsa_{X32}_{h8}»"),
    _token("Sentry token", "sntry", r"sntry[su]_[A-Za-z0-9+/=_-]{40,}", "«sntrys_{X80}»"),
    _token("New Relic key", "nrak- nrii- nrjs-", r"NR(?:AK|II|JS)-[A-Za-z0-9_-]{20,}", "«NRAK-{U27}»"),
    _token(
        "Doppler token",
        "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.",
        r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{32,}",
        "«dp.pt.{X43}»",
    ),
    _token("Postman key", "pmak-", r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}", "«PMAK-{h24}-{h34}»"),
    _token("Figma token", "figd_", r"figd_[\w-]{30,}", "«figd_{X40}»"),
    _token("PostHog key", "phx_", r"phx_[A-Za-z0-9]{40,}", "«phx_{X43}»"),
    _token("Dynatrace token", "dt0c01.", r"dt0c01\.[A-Z0-9]{24}\.[A-Z0-9]{64}", "«dt0c01.{U24}.{U64}»"),
    _token("Asana token", "1/1 2/1", r"[12]/1\d{13,18}(?:/\d{13,18})?:[a-f0-9]{32}", "«1/1234567890123456:{h32}»"),
    _token("HubSpot token", "pat-na pat-eu pat-ap", r"pat-(?:na|eu|ap)\d-[a-f0-9-]{36}", "«pat-na1-{h8}-{h4}-{h4}-{h4}-{h12}»"),
    _token("Typeform token", "tfp_", r"tfp_[\w.=-]{40,}", "«tfp_{X59}»"),
    _token("older Notion token", "secret_", r"secret_[A-Za-z0-9]{40,}(?!\w)", "«secret_{X43}»"),
    _token("ClickUp token", "pk_", r"pk_\d{6,}_[A-Z0-9]{32}", "«pk_12345678_{U32}»"),
    _token("Contentful token", "cfpat-", r"CFPAT-[\w-]{40,}", "«CFPAT-{X43}»"),
    _token("Adobe secret", "p8e-", r"p8e-[a-zA-Z0-9_-]{32}", "«p8e-{X32}»"),
    _token(
        "1Password secret",
        "a3- ops_eyj",
        r"(?:A3-[A-Z0-9]{6}-(?:[A-Z0-9]{6}-[A-Z0-9]{5}|[A-Z0-9]{11})(?:-[A-Z0-9]{5}){3}|ops_eyJ[A-Za-z0-9+/]{60,}={0,2})",
        "«A3-{U6}-{U6}-{U5}-{U5}-{U5}-{U5}»",
        "«ops_eyJ{X250}»",
    ),
    _token("ReadMe key", "rdme_", r"rdme_[a-z0-9]{60,}", "«rdme_{h70}»"),
    _token("SettleMint token", "sm_aat_ sm_pat_ sm_sat_", r"sm_[aps]at_[A-Za-z0-9]{16,}", "«sm_pat_{X16}»"),
    _token("MaxMind key", "*_mmk", r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk", "«{X6}_{X29}_mmk»"),
    _token("Honeycomb key", "hca hcx", r"hc[ax][a-z]{2}_[A-Za-z0-9]{40,}", "«hcaik_{X58}»"),
    _token("Axiom token", "xaat- xapt-", r"xa[ap]t-[a-f0-9-]{36}", "«xaat-{h8}-{h4}-{h4}-{h4}-{h12}»"),
    _token("older Grafana key", "eyjrijoi", r"eyJrIjoi[A-Za-z0-9]{60,}={0,2}", "«eyJrIjoi{X80}=»"),
    _token("Confluent secret", "cflt", r"cflt[A-Za-z0-9+/]{50,}", "«cflt{X60}»"),
    _token("Frame.io token", "fio-u-", r"fio-u-[\w=-]{60,}", "«fio-u-{X64}»"),
    _token("Defined Networking key", "dnkey-", r"dnkey-[a-z0-9=_-]{26,}", "«dnkey-{h26}-{h52}»"),
    _token("Intercom token", "dg9ro", r"dG9rO[A-Za-z0-9+/]{40,}={0,2}", "«dG9rO{X60}=»"),
    _token("PostHog project secret", "phs_ phr_", r"ph[sr]_[A-Za-z0-9]{40,}", "«phs_{X43}»"),
    _token("Figma login", "figu_ figo_", r"fig[uo]_[\w-]{30,}", "«figu_{X40}»"),
    _token("wallet key", "xprv nsec1", r"(?:xprv[A-Za-z0-9]{100,}|nsec1[a-z0-9]{58})", "«xprv{X107}»", "«nsec1{h58}»"),
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

SECRET_WORDS = r"password|passwd|passphrase|secret|token|api[ _-]?key|access[ _-]?key|private[ _-]?key|secret[ _-]?key|client[_-]?secret"
ENDS_OF_NAMES = ("=", ":", " =", '"', "\\")
"""What stands behind a name in front of its value, in text and in JSON."""
WORD_NEEDLES = ("password", "passwd", "passphrase", "secret", "token", "key")
_WORD_ANCHORS = {needle: (needle,) for needle in WORD_NEEDLES} | {"key": ("api", "access", "private")}
# Between a name and its value, in text that may have been quoted once more. Nothing of it is given back: that saves half of the time.
_SUFFIX = r"(?:_?(?:base|value|prod|live|test|dev|old|new|\d{1,2})(?![A-Za-z0-9]))?+"
# Colours, as of `grep --color`.
_COLOURS = r"(?:\x1b\[[\d;]{0,12}[mK])*+"
_BEFORE_VALUE = rf"{_SUFFIX}{_COLOURS}\\*+[\"'`]?+\]?+\s*+"
_AROUND_VALUE = r"\s*+\\*+[\"'`]?+"
# `=` of settings, code and JSON: also `:=`, `?=`, `||=`, `: str =`, `\u003d`, and the full width of East Asian text.
_EQUALS = r"(?::\s?[&\w.<>]{1,30}\s?(?==))?+(?:(?:[:?+]|\|\|)?=|(?<=\\)u003[dD]|＝)"
_COLON = r"(?::\**+|：)"
# A number alone is a count: token=4096.
_NOT_A_COUNT = r"(?!\d+(?:[\s\"',;&)\]}]|$))(?!\[redacted\])"
# Code that fetches a secret does not contain it.
_NOT_CODE = (
    r"(?!(?:None|null|true|false|await|self|this)\b)(?![A-Za-z_][\w.]*[(\[])"
    # token = Keyword.Reserved, password=password, client_secret=self_client_secret
    r"(?!(?:[A-Za-z_]+\.)+[A-Za-z_]+(?:[\s,;)]|$))(?!(?:\w{0,40}_)?(?:password|secret|token|key)(?:[\s,;)]|$))"
)
_VALUE = r"[^\s\"',;&)\]}\\]"
# TOKEN=$GH_TOKEN, TOKEN=${GH_TOKEN}: the variable from which a shell takes the secret.
# A name with four digits or more is taken for a value, as is anything in single quotes, where no shell replaces it.
_NOT_A_REFERENCE = r"(?!(?<!')\$(?:(?-i:(?!(?:[A-Z_]*\d){4})[A-Z][A-Z0-9_]{2,60})|\{(?-i:[A-Z][A-Z0-9_]{2,60})\})(?:[\s\"',;&|)\]]|$))"
# The first characters of a value, so that looking for it takes the same time however long it is.
_AFTER_REFERENCE = r"(?:(?:\$\([^()\n]{0,100}\)|\$\{\w{1,60}\}){1,3}+(?=\w{4}))?+"
_EQUALS_VALUE = rf"{_EQUALS}{_AROUND_VALUE}){_NOT_A_COUNT}{_NOT_A_REFERENCE}{_AFTER_REFERENCE}(?!\$\(){_NOT_CODE}{_VALUE}{{4}}"
# The value must not look like a word of prose.
_YAML = r"(?:(?:[|>][+-]?(?=\s|\\n)|[&!][\w-]{1,40}(?=\s))(?:\\n|\s)*+)?+"
_COLON_VALUE = rf"{_COLON}{_AROUND_VALUE}{_YAML}){_NOT_A_COUNT}{_NOT_CODE}(?=[^\s\"',;]{{0,200}}[0-9!#$%^&*+=~]){_VALUE}{{6}}"
_NAMED_VALUE = (
    rf"password|passwd|passphrase|(?:{SECRET_WORDS}){_BEFORE_VALUE}"
    rf"(?:(?:=>|{_EQUALS}|{_COLON})\s*+\\*+[\"']|(?:{_EQUALS_VALUE}|(?:{_COLON_VALUE})"
)
"""Matches wherever one of the rules with `_WORD_ANCHORS` does: one attempt instead of four."""
_WORD_STARTS = tuple(start for starts in _WORD_ANCHORS.values() for start in starts)
_SENTENCE_ANCHORS = {f"{needle} {verb} ": _WORD_ANCHORS[needle] for needle in WORD_NEEDLES for verb in ("is", "was", "to", "are")}
_SETTERS = ("env ", "arg ", "setx ", "setenv ", "define ", "set -", "configure set", "config set")
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
    # token, Bearer, ghp_, sk-ant-, aws_secret
    "dG9rZW4",
    "Rva2Vu",
    "0b2tlb",
    "QmVhcmVyI",
    "Z2hwX",
    "c2stYW50L",
    "c2stcHJva",
    # <samlp:Response
    "PHNhbWxw",
)
_IN_CONTEXT = (
    SecretRule(
        "private key",
        ("private key",),
        r"----[- ]BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?[- ]----(?:.*?----[- ]END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?[- ]----|.*\Z)",
        (
            "-----BEGIN RSA PRIVATE KEY-----\n«{X64}»\n«{X64}»\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN OPENSSH PRIVATE KEY-----\n«{X70}»\n",
            "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n«{X70}»\n---- END SSH2 ENCRYPTED PRIVATE KEY ----",
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
        r"(?P<before>[?&;,]\s?(?:sig|signature|X-Amz-Signature|X-Amz-Security-Token|X-Goog-Signature)=)[A-Za-z0-9%+/_=-]{30,}",
        (
            "https://x.test/a?se=2026-01-01&sig=«{X43}%3D»",
            "https://x.test/a?X-Amz-Signature=«{h64}»",
            "AWS4-HMAC-SHA256 Credential=a/b, Signature=«{h64}»",
        ),
        ignore_case=True,
    ),
    SecretRule(
        "webhook of a chat",
        ("hooks.slack.com/", "/api/webhooks/", "hooks.zapier.com/", "webhook.office.com/"),
        r"(?P<before>(?:hooks\.slack\.com/(?:services|workflows)/T\w{4,20}/\w{4,20}/|/api/webhooks/\d{10,24}/"
        r"|hooks\.zapier\.com/hooks/catch/\d{1,12}/|webhook\.office\.com/webhookb2/[\w@-]{1,100}/IncomingWebhook/))[\w/-]{6,}",
        ("https://hooks.slack.com/services/T{U9}/B{U9}/«{X24}»", "https://discord.com/api/webhooks/123456789012345678/«{X68}»"),
    ),
    SecretRule(
        "Discord bot token",
        ("discord", "login("),
        r"{start}[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}(?![A-Za-z0-9_-])",
        ("DISCORD=«M{X23}.{X6}.{X38}»",),
    ),
    SecretRule(
        "Airtable token",
        ("airtable", "token", "key"),
        r"{start}pat[A-Za-z0-9]{14}\.[a-f0-9]{64}",
        ("airtable «pat{X14}.{h64}»",),
        is_token=True,
        anchors=dict.fromkeys(("airtable", "token", "key"), ("pat",)),
    ),
    SecretRule(
        "authorization header",
        ("authorization",),
        r"(?P<before>{start}authorization[\"'\\]{0,4}\s*[:=]\s*[\"'\\]{0,4}(?:\w+\s+|(?=[A-Za-z._~+/=-]{0,40}\d)(?=[\w.~+/=-]{20})))[A-Za-z0-9._~+/=-]{6,}",
        ("Authorization: Basic «{B64}»", "Authorization: Bearer «{X40}»", "Authorization: Bearer «{a40}»", "authorization: «{X40}»"),
        ignore_case=True,
        anchors={"authorization": ("authorization",)},
        has_word=True,
    ),
    SecretRule(
        "bearer token",
        ("bearer",),
        r"(?P<before>{start}bearer\s+)(?:(?=[A-Za-z._~+/=-]*[0-9])[A-Za-z0-9._~+/=-]{12,}|(?=[A-Z]*[a-z]+[A-Z])[A-Za-z]{20,})",
        ("bearer «{X40}»",),
        ignore_case=True,
        anchors={"bearer": ("bearer",)},
        has_word=True,
    ),
    SecretRule(
        "cookie",
        ("cookie",),
        r"(?P<before>{start}(?:set-)?cookie[\"'\\]{0,4}\s*[:=]\s*[\"'\\]{0,4}[\w.-]{1,80}=)[^\s\"';,\\]{8,}",
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
        r"(?P<before>(?<![\w.*:-])[\w.*-]{1,100}:(?:\d{4,5}|\*):[\w*-]{1,100}:[\w*-]{1,100}:)(?!\[redacted\])[^\s:\"'\\]{4,}",
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
        rf"(?P<before>\b[A-Z][A-Z0-9_]*_KEY{_BEFORE_VALUE}[:=]{_AROUND_VALUE})(?=[A-Za-z+/_=-]*\d)(?=\d*[A-Za-z])[A-Za-z0-9+/=_-]{{24,}}",
        ("RAILS_MASTER_KEY=«{h32}»", "DD_APP_KEY=«{h40}»"),
    ),
    SecretRule(
        "session of a web server",
        ("jsessionid", "phpsessid", "connect.sid", "laravel_session", "asp.net_sessionid", "_gitlab_session", "__secure-", "__host-"),
        r"(?P<before>{start}(?:JSESSIONID|PHPSESSID|connect\.sid|laravel_session|ASP\.NET_SessionId|_gitlab_session|__(?:Secure|Host)-[\w.-]{1,40})=)"
        r"(?!\[redacted\])[^\s\"';,\\]{10,}",
        ("curl -b JSESSIONID=«{h32}» x.test", "curl -b 'connect.sid=«s%3A{X32}.{X43}»' x.test"),
        ignore_case=True,
        is_token=True,
    ),
    SecretRule(
        "basic login",
        ("basic ",),
        r"(?P<before>{start}Basic\s{1,4})(?=[A-Za-z+/]{0,80}[0-9=])[A-Za-z0-9+/]{12,}={0,2}(?![\w.-])",
        ("headers: Basic «{B64}»",),
        is_token=True,
    ),
    SecretRule(
        "header with a key",
        ("-key:", '-key"', "-key\\"),
        r"(?P<before>(?:subscription|functions|auth|license|signing|encryption|master|account|shared|service|app)-key[\"'\\]{0,4}\s*[:=]\s*[\"'\\]{0,4})"
        r"(?=[A-Za-z+/_=-]{0,40}\d)[A-Za-z0-9+/_=-]{20,}",
        ("Ocp-Apim-Subscription-Key: «{h32}»", "X-Auth-Key: «{h37}»"),
        ignore_case=True,
        is_token=True,
    ),
    SecretRule(
        "key in a link",
        ("key=", "code=", "auth=", "jwt="),
        r"(?P<before>[?&](?:key|code|auth|jwt)=)(?=[A-Za-z_%-]{0,40}\d)(?=\d{0,40}[A-Za-z])[\w%.-]{20,}",
        ("https://x.test/v1?key=«{X32}»", "https://fn.x.test/api/run?code=«{X40}==»"),
        ignore_case=True,
        is_token=True,
    ),
    SecretRule(
        "password in XML",
        tuple(f"{word}>" for word in ("password", "passwd", "passphrase", "secret", "token", "key")),
        rf"(?P<before><[\w:.-]{{0,40}}(?:{SECRET_WORDS})>\s*){_NOT_A_PASSWORD}(?![$%{{@]|\[redacted\])[^\s<>]{{6,}}(?P<after>\s*</)",
        ("<server><username>ada</username><password>«{X16}»</password></server>",),
        ignore_case=True,
    ),
    SecretRule(
        "named value beside its name",
        tuple(f"value{end}" for end in ENDS_OF_NAMES),
        rf"(?P<before>(?:{SECRET_WORDS})\\*[\"']?(?:[,\s]|\\[nrt]){{1,40}}\\*[\"']?value\\*[\"']?\s*[:=]\s*\\*[\"']?)"
        rf"{_NOT_A_COUNT}{_NOT_CODE}{_VALUE}{{6,}}",
        (
            "env:\n  - name: DB_PASSWORD\n    value: «{X16}»\n",
            '[{"name": "API_TOKEN", "value": "«{X24}»"}]',
            '<add key="ClearTextPassword" value="«{X16}»" />',
        ),
        ignore_case=True,
        is_token=True,
        anchors={f"value{end}": _WORD_STARTS for end in ENDS_OF_NAMES},
    ),
    SecretRule(
        "named value behind a space",
        _SETTERS,
        rf"(?P<before>{{start}}(?:ENV|ARG|setx|setenv|define|set -\w{{1,4}}|configure set|config set) +[\w./:-]{{0,80}}"
        rf"(?:{SECRET_WORDS}){_SUFFIX} +\\*[\"']?)"
        rf"{_NOT_A_COUNT}(?=[A-Za-z+/_=.-]{{0,60}}[0-9!#$%^&*]){_VALUE}{{6,}}",
        (
            "ENV DB_PASSWORD «{X16}»",
            "setenv DB_PASSWORD «{X16}»",
            '#define API_KEY "«{X24}»"',
            "set -gx API_KEY «{X32}»",
            "aws configure set aws_secret_access_key «{X40}»",
        ),
        ignore_case=True,
        is_token=True,
        anchors={needle: (needle,) for needle in _SETTERS},
    ),
    SecretRule(
        "named argument",
        tuple(f"{word}{end}" for word in WORD_NEEDLES for end in ("',", '",', "\\")),
        r"(?P<before>\b(?:define|setenv|putenv|getenv|get|env|fetch|set|put|add|append|header|setdefault|setProperty|setRequestHeader)"
        rf"\( ?\\*[\"']"
        rf"[\w. -]{{0,60}}(?:{SECRET_WORDS})\\*[\"'], ?\\*[\"'])(?!\[redacted\])(?=[A-Za-z+/_=. -]{{0,60}}[0-9!#$%^&*])[^\"'\\\n]{{6,}}",
        ("define('DB_PASSWORD', '«{X16}»');", 'os.getenv("API_TOKEN", "«{X24}»")'),
        ignore_case=True,
        is_token=True,
    ),
    SecretRule(
        "secret in a sentence",
        tuple(_SENTENCE_ANCHORS),
        rf"(?P<before>(?:{SECRET_WORDS}) (?:is|was|to|are) (?:now )?\\*[\"'`]?)(?!\[redacted\])(?=[A-Za-z_+/=.-]{{0,60}}[0-9!#$%^&*])"
        rf"(?=[^\sA-Za-z]{{0,60}}[A-Za-z])(?![\d.]{{1,10}}[a-z]{{0,2}}\b)[^\s\"',;`)\]}}\\<>(|]{{7,}}",
        ("the admin password is «{X12}»", "I set the token to «{X32}»."),
        ignore_case=True,
        is_token=True,
        anchors=_SENTENCE_ANCHORS,
    ),
    SecretRule(
        "encoded for a link",
        ("%3d", "%3a", "%253d", "%253a"),
        rf"(?P<before>(?:{SECRET_WORDS})(?:%(?:25)?2[27])?(?:%(?:25)?3[AD])(?:%20|%22|%27|\+)*)(?!\[redacted\])[\w.~+-]{{6,}}",
        ("q=%7B%22password%22%3A%22«{X16}»%22%7D", "next=/login%3Ftoken%3D«{X24}»"),
        ignore_case=True,
        is_token=True,
    ),
    SecretRule(
        "short name of a password",
        tuple(f"{word}{end}" for word in ("pass", "pwd", "psk", "passcode", "_pw", "auth") for end in ENDS_OF_NAMES),
        rf"(?P<before>{{start}}(?:pass|pwd|psk|passcode|\w{{1,40}}_(?:pass|pwd|pw)|basic_?auth)\\*[\"']?\s*[:=]\s*\\*[\"']?){_NOT_A_COUNT}{_NOT_CODE}"
        rf"(?![$<{{/.~]|0x|\w+://)(?=[A-Za-z_+/=.-]{{0,60}}[0-9!#$%^&*])(?=[^\sA-Za-z]{{0,60}}[A-Za-z]){_VALUE}{{8,}}",
        ("ansible_become_pass: «{X16}»", "[remote]\npass = «{X24}»", 'network={psk="«{X12}»"}', '"db_pw": "«{X16}»"'),
        ignore_case=True,
        is_token=True,
    ),
    *(
        SecretRule(
            f"password of {name}",
            needles,
            rf"(?P<before>{{start}}(?:{programs})\b[^\n|;&]{{0,200}}?\s(?:{option})[ =]?\\*[\"']?)"
            r"(?!\[redacted\])[^\s\"'\\=-][^\s\"'\\]{3,}",
            (example,),
            is_token=True,
        )
        for name, needles, programs, option, example in (
            (
                "a container registry",
                ("login",),
                "(?:docker|podman|helm|nerdctl|oras|buildah|skopeo|az|oc) [^\n|;&]{0,60}?login",
                "-p|--pass(?= )",
                "docker login -u ada -p «{X20}» x.test",
            ),
            ("Redis", ("redis-cli",), "redis-cli", "-a|--pass(?= )", "redis-cli -h cache -a «{X16}» ping"),
            ("MongoDB", ("mongo",), "mongo(?:sh|dump|restore|export|import)?", "-p", "mongosh -u root -p «{X16}» db"),
            (
                "a directory",
                ("ldap",),
                "ldap(?:search|add|modify|delete|whoami|passwd)",
                "-w",
                "ldapsearch -x -D cn=admin -w «{X16}» -b dc=x",
            ),
            ("SQL Server", ("sqlcmd", "bcp"), "sqlcmd|bcp", "-P", "sqlcmd -S db -U sa -P «{X16}»"),
            ("an archive", ("zip", "7z ", "7za"), "zip|unzip|7za?", "-P|-p", "zip -r -P «{X12}» a.zip a"),
            (
                "a broker or server",
                ("rabbitmqadmin", "cqlsh", "ipmitool"),
                "rabbitmqadmin|cqlsh|ipmitool",
                "-[pP]",
                "cqlsh -u ada -p «{X16}» db",
            ),
            ("a key store", ("security", "keytool"), "security|keytool", "-(?:[wp]|storepass|keypass)", "keytool -list -storepass «{X16}»"),
            ("OpenSSL's cipher", ("openssl",), "openssl", "-k|-K", "openssl enc -aes-256-cbc -k «{X16}» -in x"),
        )
    ),
    SecretRule(
        "password of OpenSSL",
        ("pass:",),
        r"(?P<before>\s-pass(?:in|out)?\s+\\*[\"']?pass:)(?!\[redacted\])[^\s\"'\\]{3,}",
        ("openssl rsa -in key.pem -passin pass:«{X16}»",),
        is_token=True,
    ),
    SecretRule(
        "password for a program's input",
        ("sudo -s", "-stdin", "-with-token", "chpasswd"),
        r"(?P<before>{start}echo\s+(?:-n\s+)?\\*[\"']?(?:[\w-]{1,40}:)?)(?!\[redacted\]|-)[^\s\"'\\|]{3,100}"
        r"(?P<after>\\*[\"']?\s*\|\s*(?:sudo\s+)?(?:sudo\s+-S|chpasswd|[^\n|;&]{0,100}(?:--password-stdin|--with-token|--stdin)))",
        (
            "echo «{X12}» | sudo -S apt update",
            "echo 'root:«{X12}»' | chpasswd",
            "echo «{X20}» | docker login -u ada --password-stdin x.test",
        ),
        is_token=True,
    ),
    *(
        SecretRule(
            f"secret for {name}",
            needles,
            rf"(?P<before>{{start}}{before}\\*[\"']?)(?!\[redacted\]|-)[^\s\"'\\|@]{{3,}}",
            (example,),
            is_token=True,
        )
        for name, needles, before, example in (
            (
                "htpasswd",
                ("htpasswd",),
                r"htpasswd\s[^\n|;&]{0,20}b\w{0,4}\s(?:[^\s|;&-][^\s|;&]{0,100}\s){1,2}",
                "htpasswd -bc .htpasswd ada «{X12}»",
            ),
            ("smbclient", ("smbclient",), r"smbclient\b[^\n|;&]{0,100}?\s-U\s?[^\s%]{1,60}%", "smbclient //host/share -U ada%«{X12}»"),
            ("PowerShell", ("securestring",), r"ConvertTo-SecureString\s+(?:-String\s+)?", "ConvertTo-SecureString '«{X16}»' -AsPlainText"),
            (
                "kubectl",
                ("from-literal",),
                r"--from-literal[= ][\w.-]{1,60}=",
                "kubectl create secret generic db --from-literal=pw=«{X16}»",
            ),
            (
                "a secret store",
                ("secret set",),
                r"secret set\s+[\w.-]{1,80}\s+(?:--body|-b|--value)[ =]",
                "gh secret set DEPLOY --body «{X32}»",
            ),
            ("a Redis server", ("requirepass", "masterauth"), r"(?:requirepass|masterauth)\s+", "requirepass «{X16}»"),
            ("a tunnel", ("authtoken ",), r"\w{0,20}-?authtoken\s+", "ngrok config add-authtoken «2{X26}_{X20}»"),
            ("Oracle", ("sqlplus",), r"sqlplus\s+(?:-\w\s+)?[\w$#]{1,40}/", "sqlplus system/«{X12}»@db"),
            ("HTTPie", ("http -a", "https -a", "http --auth"), r"https?\s+(?:-a|--auth)[ =]\S{1,60}?:", "http -a ada:«{X16}» x.test"),
        )
    ),
    SecretRule(
        "line of a cookie file",
        ("\ttrue\t", "\tfalse\t", "\\ttrue", "\\tfalse"),
        r"(?P<before>(?:\t|\\{1,8}t)(?:TRUE|FALSE)(?:\t|\\{1,8}t)\d{1,12}(?:\t|\\{1,8}t)[\w.-]{1,80}(?:\t|\\{1,8}t))(?!\[redacted\])[^\s\\\"]{8,}",
        ("x.test\tFALSE\t/\tTRUE\t1999999999\tsessionid\t«{X32}»",),
        is_token=True,
    ),
    SecretRule(
        "password behind its name",
        ("password ", "passphrase "),
        r"(?P<before>(?:password|passphrase) \\*[\"'`]?)"
        r"(?=[^\sA-Z]{0,40}[A-Z])(?=[^\sa-z]{0,40}[a-z])(?=[^\s\d]{0,40}\d)[\w!#$%^&*+=~-]{8,}(?![\w(.])",
        ("use password «aB3{X12}» to log in",),
        is_token=True,
        anchors={"password ": ("password ", "Password "), "passphrase ": ("passphrase ",)},
    ),
    SecretRule(
        "login in code",
        ("auth=(", "auth = (", "auth=[", "basicauth("),
        r"(?P<before>(?:auth\s?=\s?[(\[]|BasicAuth\()\s?\\*[\"'][^\"'\\\n]{0,80}\\*[\"'],\s?\\*[\"'])(?!\[redacted\])[^\"'\\\n]{4,}",
        ('requests.get(url, auth=("ada", "«{X16}»"))',),
        ignore_case=True,
        is_token=True,
    ),
    SecretRule(
        "private part of a JSON web key",
        ('"kty', "kty\\"),
        r"(?P<before>[{,]\s*\\*\"(?:d|p|q|dp|dq|qi|k)\\*\"\s*:\s*\\*\")(?!\[redacted\])[\w-]{20,}",
        ('{"kty": "EC", "crv": "P-256", "d": "«{X43}»"}',),
    ),
    SecretRule(
        "value that a command substitution prints",
        ("echo ", "printf "),
        rf"(?P<before>(?:{SECRET_WORDS}){_SUFFIX}=\\*[\"']?(?:\$\(|`)\s?(?:echo|printf)\s(?:-\w{{1,3}}\s)?(?:\\*[\"']?%s\\*[\"']?\s)?\\*[\"']?)"
        r"(?!\[redacted\]|[$-])[^\s\"'\\()`|]{4,}",
        ("TOKEN=$(echo «{X16}»)", "PASSWORD=`printf %s '«{X16}»'`"),
        ignore_case=True,
        is_token=True,
    ),
    SecretRule(
        "named value in quotes",
        WORD_NEEDLES,
        rf"(?P<before>(?:{SECRET_WORDS}){_BEFORE_VALUE}(?:=>|{_EQUALS}|{_COLON})\s*+\\*+(?P<quote>[\"'])(?:(?P=quote){{2}})?+)(?!\[redacted\]){_NOT_A_REFERENCE}[^\"'\\\n]{{2,}}(?P<after>\\*(?P=quote))",
        ('password: "«correct horse battery»"', 'password = "«{X16}»"'),
        ignore_case=True,
        anchors=_WORD_ANCHORS,
        has_word=True,
    ),
    SecretRule(
        "named value",
        WORD_NEEDLES,
        rf"(?P<before>(?:{SECRET_WORDS}){_BEFORE_VALUE}{_EQUALS_VALUE}{_VALUE}*",
        ("AWS_SECRET_ACCESS_KEY=«{X40}»", "aws_session_token = «{X200}»", "TWILIO_AUTH_TOKEN=«{h32}»", "DD_API_KEY=«{h32}»"),
        ignore_case=True,
        anchors=_WORD_ANCHORS,
        has_word=True,
    ),
    SecretRule(
        "value of a flag",
        WORD_NEEDLES,
        rf"(?P<before>(?<![\w-])--[\w-]{{0,40}}(?:{SECRET_WORDS})(?:[ =][\"']?|\\*[\"'],\s?\\*[\"']))(?!\[redacted\])[^\s\"'\\]{{4,}}",
        ("gh auth login --token «{X16}»",),
        ignore_case=True,
        anchors=dict.fromkeys(WORD_NEEDLES, ("--",)),
        has_word=True,
    ),
    SecretRule(
        "value behind a colon",
        WORD_NEEDLES,
        rf"(?P<before>(?:{SECRET_WORDS}){_BEFORE_VALUE}{_COLON_VALUE}{_VALUE}*",
        ("X-Api-Key: «{h32}»", "X-Auth-Token: «{h32}»", "password: «{X16}»"),
        ignore_case=True,
        anchors=_WORD_ANCHORS,
        has_word=True,
    ),
    SecretRule(
        "password of digits",
        ("password", "passwd", "passphrase"),
        rf"(?P<before>(?:password|passwd|passphrase){_BEFORE_VALUE}[:=]{_AROUND_VALUE})\d{{4,}}",
        ("password: «12345678»",),
        ignore_case=True,
        anchors=_WORD_ANCHORS,
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
        tuple(
            f"{word}{end}"
            for word in ("pass", "pwd", "auth", "_dsn", "_tokens", "_secrets", "_passwords", "_keys")
            for end in ENDS_OF_NAMES
        ),
        rf"(?P<before>\b(?:[A-Z][A-Z0-9_]*_(?:PASS|PWD|AUTH|DSN|(?:TOKEN|SECRET|PASSWORD|KEY)S(?=\S{{0,60}}\d))|SSHPASS)\\*[\"']?\s*[:=]\s*\\*[\"']?){_NOT_A_COUNT}(?![$<{{/.~]|0x|\w+://){_VALUE}{{6,}}",
        ("DB_PASS=«{X16}»", "DB_PWD=«{X16}»", "SSHPASS=«{X16}» sshpass -e ssh x"),
    ),
    SecretRule(
        "default of a setting",
        ("|| '", '|| "', "?? '", '?? "', ') or "', ") or '", "|| \\", "?? \\", ") or \\"),
        rf"(?P<before>(?:{SECRET_WORDS})\\*[\"']?[)\]]{{0,2}} ?(?:\|\||\?\?|or) \\*[\"'])(?=[^\"'\\\n]{{0,60}}\d)[^\s\"'\\]{{8,}}",
        ("process.env.API_TOKEN || '«{X24}»'", 'os.environ.get("TOKEN") or "«{X24}»"'),
        ignore_case=True,
        is_token=True,
    ),
    SecretRule(
        "password in SQL",
        ("password '", "identified by '", 'identified by "', "identified by \\"),
        r"(?P<before>(?:with (?:encrypted )?password|identified by(?: password)?) \\*[\"'])(?!\[redacted\])[^\s\"'\\]{4,}",
        ("CREATE USER ada WITH PASSWORD '«{X16}»'", "ALTER USER ada IDENTIFIED BY '«{X16}»'"),
        ignore_case=True,
        is_token=True,
    ),
    SecretRule(
        "cell of a table",
        tuple(f"{word} |" for word in WORD_NEEDLES),
        rf"(?P<before>(?:{SECRET_WORDS}) {{1,40}}\| {{1,40}}`?)(?!\[redacted\])"
        r"(?=[A-Za-z_-]{0,40}\d)(?=\d{0,40}[A-Za-z])[\w+/=~!@#%^&*-]{12,}(?![\w+/=~!@#%^&*.-])",
        ("| password | «{X16}» |",),
        ignore_case=True,
        is_token=True,
    ),
    SecretRule(
        "private key without its frame",
        ("ibadanbgkqhkig9w0baqef", "ibaakc", "b3blbnnzac1rzxktdj"),
        r"{start}(?:MII[A-Za-z0-9+/]{2,5}IBA(?:DANBgkqhkiG9w0BAQEF|AKC)|b3BlbnNzaC1rZXktdj)[A-Za-z0-9+/]{16,}={0,2}"
        r"(?:(?:\s|\\[rn]){1,4}[A-Za-z0-9+/]{24,80}={0,2}(?![\w+/=])){0,200}",
        ("«MIIEvQIBADANBgkqhkiG9w0BAQEFAASC{X32}»\n«{X64}»\n", "«b3BlbnNzaC1rZXktdj{X50}»\n«{X70}»\n"),
    ),
    SecretRule(
        "value in a property list",
        ("</key>",),
        rf"(?P<before>(?:{SECRET_WORDS})</key>(?:\s|\\[rnt]){{0,40}}<string>)(?!\[redacted\])[^\s<>]{{4,}}(?P<after></string>)",
        ("<key>password</key>\n<string>«{X16}»</string>",),
        ignore_case=True,
        is_token=True,
    ),
    SecretRule(
        "login of a mail server",
        ("auth plain ", "auth login "),
        r"(?P<before>{start}AUTH (?:PLAIN|LOGIN) )[A-Za-z0-9+/]{12,}={0,2}",
        ("AUTH PLAIN «{B64}»",),
        is_token=True,
    ),
)

RULES: tuple[SecretRule, ...] = (*_TOKENS, *_IN_CONTEXT)
"""In the order in which they are run."""

# --- Searching for needles

# A secret word counts only if a value follows: `token=…`, `"token": "…"`, `--token …`.
_FOLLOWED_BY_VALUE = (
    rf"(?={_SUFFIX}(?:\\[nrt]|\\u001b\[[\d;]{{0,12}}[mK]|[\\\"'`\]\s])*+(?:[?+|]{{0,2}}[=:]|：|＝|u003[dD]|(?<=[\"'])[,\]]))"
)


def _secret_word_pattern(rest: str, *words: str) -> str:
    """Match a secret word from one of its rarer letters on: the rest of it, then lookbehinds for its start."""
    lookbehind = "|".join(f"(?<={word})" for word in words)
    flag = "|".join(f"(?<=-{word})" for word in words)
    return f'(?i:{rest}(?:{lookbehind})(?:{_FOLLOWED_BY_VALUE}|(?:{flag})[ "\\\\]))'


_KEY_WORDS = ("api[ _-]key", "apikey", "access[ _-]key", "accesskey", "private[ _-]key", "privatekey", "secret[ _-]key", "secretkey")
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

_OTHER_KEYS = ('_pass"', '_pwd"', '"auth"', '"_auth"', 'cookie"', 'cookies"', 'passwords"', 'secrets"', 'keys"')
"""Keys of secret values without one of the usual words."""
_OTHER_KEYS_SET = frozenset(_OTHER_KEYS)
_KEY_NEEDLES = (*WORD_NEEDLES, "authorization", "credential", *_OTHER_KEYS)
_INNER_NEEDLES = {*_KEY_NEEDLES, *(needle for rule in RULES if not (rule.is_token and rule.anchors) for needle in rule.needles)}
_WORD_START_NEEDLES = {needle for rule in RULES for needle in rule.needles} - _INNER_NEEDLES
"""Needles that count only at the start of a word: `task-7` has none."""
_NEEDLES = tuple(sorted(_INNER_NEEDLES))
_ALL_NEEDLES = (*_NEEDLES, *sorted(_WORD_START_NEEDLES))
"""In the order of the compiled search."""
_ENCODED_NEEDLES = tuple(needle.encode() for needle in _NEEDLES)
_ENCODED_WORD_STARTS = tuple(sorted(needle.encode() for needle in _WORD_START_NEEDLES))
_INTERFACE = 3
"""Of the C extension; an older one knows too few needles."""

# {"id":"<36 characters>","at":"2026-11-15T20:23:12.000000Z",
_HEADER_BYTES = 80


_SECRET_KEY_PATTERN = rf"(?:{SECRET_WORDS}|passwords|secrets|api_?keys|authorization|credentials?|_pass|_pwd){_SUFFIX}$"
_SECRET_KEY_PARTS = ("pass", "secret", "token", "key", "auth", "cred", "pwd")
"""One of these is in every secret key."""
# The files of registries keep a name and a password as base64.
_LOGIN_KEYS = ("auth", "_auth")
_LOGIN_PATTERN = r"[A-Za-z0-9+/]{12,}={0,2}"
_NUMERIC_SECRET_PATTERN = r"(?:password|passwd|passphrase|secret)$"
_MAX_FLAG_CHARS = 100
_SECRET_HEADER_PATTERN = rf"(?:[\w.-]{{0,40}}(?:{SECRET_WORDS})|(?:proxy-)?authorization|(?:set-)?cookie){_SUFFIX}"
_COOKIE_KEYS = ("cookie", "cookies", "set-cookie", "set_cookie")
_TOKEN_PATTERN = r"(?:(?:Bearer|Basic|Token) )?(?=[A-Za-z_.=/+-]{0,80}\d)(?=[^A-Za-z]{0,80}[A-Za-z])\S{10,}(?:; .*)?"
_SECRET_FLAG_PATTERN = rf"--[\w-]{{0,40}}(?:{SECRET_WORDS})"


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
    needles, names = _find_needles_in_value(value), list[str]()
    for text in _texts_in(value, ()):
        lowered = text.lower()
        for rule, number, _ in _find_rules(tuple(needle for needle in needles if needle in lowered)):
            if rule.also in lowered and _compile_rule(number).search(text[::-1] if rule.is_backwards else text):
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


def _find_needles(text: str) -> tuple[str, ...]:
    """The needles that are in a text."""
    if (fast_search := secret_word_search()) is not None:
        return tuple(_ALL_NEEDLES[number] for number in fast_search.numbers_in(text.encode(errors="replace")))
    lowered = text.lower()
    return tuple(needle for needle in _ALL_NEEDLES if needle in lowered)


def _find_needles_in_json(raw: bytes) -> tuple[str, ...]:
    """At least the needles that are in the texts of a JSON value: only quotes and backslashes are escaped, so these are put back."""
    unescaped = raw.replace(b'\\"', b'"') if b'\\"' in raw else raw
    if (fast_search := secret_word_search()) is None:
        return _find_needles(unescaped.decode(errors="replace"))
    return tuple([_ALL_NEEDLES[number] for number in fast_search.numbers_in(unescaped)])


def _find_needles_in_value(value: Any) -> tuple[str, ...]:
    texts: list[str] = []
    _collect_texts(value, texts)
    return _find_needles("\n".join(texts))


@lru_cache(maxsize=4096)
def _find_rules(needles: tuple[str, ...]) -> list[_FoundRule]:
    """The rules that may match in a text with these needles, in their order."""
    found = []
    for number, rule in enumerate(RULES):
        if not set(needles).isdisjoint(rule.needles):
            anchors = sorted({anchor for needle in needles for anchor in rule.anchors.get(needle, ())})
            found.append((rule, number, tuple(anchors)))
    return found


@lru_cache(maxsize=4096)
def _find_wordless_rules(needles: tuple[str, ...]) -> list[_FoundRule]:
    """Those of them that match without one of the usual words, for which there is one expression."""
    return [found for found in _find_rules(needles) if not found[0].has_word]


@lru_cache(maxsize=4096)
def _may_names_match_rules(part: bytes) -> bool:
    """The part of an event between its stamps and its text, kind and names, recurs."""
    return _may_match_rules(part)


def _may_match_rules(raw: bytes) -> bool:
    """Whether a rule may match in this JSON, or one of its keys may make a value secret."""
    if _compile_words().search(raw):
        return True
    fast_search = secret_word_search()
    text = raw.decode(errors="replace")
    needles = _find_needles(text) if fast_search is None else tuple([_ALL_NEEDLES[number] for number in fast_search.numbers_in(raw)])
    if not _OTHER_KEYS_SET.isdisjoint(needles):
        return True
    rules = _find_wordless_rules(needles)
    if not rules:
        return False
    lowered = text.lower()
    for rule, number, anchors in rules:
        if rule.also not in lowered:
            continue
        if not rule.is_token:
            return True
        pattern = _compile_rule(number)
        if anchors and len(lowered) == len(text):
            if any(pattern.match(text, start) for start in _find_anchors(anchors, lowered)):
                return True
        elif pattern.search(text):
            return True
    return False


class _Mask:
    """Replaces secrets and counts them."""

    def __init__(self, harmless: Container[str]) -> None:
        self.found = 0
        self.harmless = harmless

    def __call__(self, match: re.Match[str]) -> str:
        groups = match.groupdict()
        return f"{groups.get('before') or ''}{self.mask_value()}{groups.get('after') or ''}"

    def mask_backwards(self, match: re.Match[str]) -> str:
        return f"{match['before']}{self.mask_value()[::-1]}"

    def mask_value(self) -> str:
        self.found += 1
        return MASK


class _SecretContext:
    """Whether the keys above a value make its strings, or also its numbers, secret, or only strings that look like a login or a token."""

    def __init__(self, strings: bool = False, numbers: bool = False, *, logins: bool = False, tokens: bool = False) -> None:
        self.strings, self.numbers, self.logins, self.tokens = strings, numbers, logins, tokens


_NO_SECRET_CONTEXT = _SecretContext()


def _redact_nested(value: Any, mask: _Mask, needles: tuple[str, ...], context: _SecretContext = _NO_SECRET_CONTEXT) -> Any:
    if isinstance(value, str):
        if (
            context.strings
            or (context.logins and _compile_expression(_LOGIN_PATTERN).fullmatch(value))
            or (context.tokens and _compile_expression(_TOKEN_PATTERN).fullmatch(value))
        ):
            return value if value in ("", MASK) else mask.mask_value()
        return _redact_text(value, mask, needles)
    if isinstance(value, dict):
        return _redact_dict(value, mask, needles, context)
    if isinstance(value, list):
        before = (None, *value)
        return [_redact_nested(item, mask, needles, _context_from_flag(flag, context)) for flag, item in zip(before, value, strict=False)]
    if context.numbers and isinstance(value, int | float) and not isinstance(value, bool):
        return mask.mask_value()
    return value


def _redact_dict(value: dict[Any, Any], mask: _Mask, needles: tuple[str, ...], context: _SecretContext) -> dict[Any, Any]:
    """Most keys are plain and most values are texts or numbers, so these need no further calls."""
    cleaned, plain_keys, is_plain_context = {}, _PLAIN_KEYS, context is _NO_SECRET_CONTEXT
    if (
        is_plain_context
        and not _VALUE_KEYS.isdisjoint(value)
        and (of_name := _context_from_key(next((value[key] for key in _NAME_KEYS if key in value), None), context)) is not context
    ):
        # {"name": "DB_PASSWORD", "value": "…"}
        return {key: _redact_nested(item, mask, needles, of_name if key in _VALUE_KEYS else context) for key, item in value.items()}
    for key, item in value.items():
        if is_plain_context and key in plain_keys:
            kind = type(item)
            if kind is str:
                lowered = item.lower()
                for needle in needles:
                    if needle in lowered:
                        item = _redact_text(item, mask, needles)
                        break
            elif kind is dict:
                item = _redact_dict(item, mask, needles, context)
            elif kind is list:
                item = _redact_nested(item, mask, needles)
            cleaned[key] = item
        else:
            below = context if key in mask.harmless else _context_from_key(key, context)
            if isinstance(key, str) and below is context and _is_plain_key(key) and len(plain_keys) < _MOST_PLAIN_KEYS:
                plain_keys.add(key)
            cleaned[_redact_nested(key, mask, needles)] = _redact_nested(item, mask, needles, below)
    return cleaned


_NAME_KEYS = ("name", "key", "Name", "Key", "variable", "header")
_VALUE_KEYS = frozenset(("value", "Value", "default"))
_PLAIN_KEYS: set[str] = set()
"""Keys that were found to be no secret and to say nothing about their value; keys recur."""
_MOST_PLAIN_KEYS = 4096


def _is_plain_key(key: str) -> bool:
    lowered = key.lower()
    return len(key) < 100 and _find_key_context(key) is None and not any(needle in lowered for needle in _ALL_NEEDLES)


def _redact_text(text: str, mask: _Mask, needles: tuple[str, ...]) -> str:
    lowered = text.lower()
    found = tuple([needle for needle in needles if needle in lowered])
    if not found:
        return text
    named: list[int] | None = None
    for rule, number, anchors in _find_rules(found):
        if rule.also not in lowered:
            continue
        before, pattern = text, _compile_rule(number)
        if rule.is_backwards:
            text = pattern.sub(mask.mask_backwards, text[::-1])[::-1]
        elif anchors and len(lowered) == len(text):  # some capitals have a longer small letter
            if rule.anchors is not _WORD_ANCHORS:
                starts = _find_anchors(anchors, lowered)
            elif named is None:
                has_value = _compile_expression(_NAMED_VALUE).match
                starts = named = [start for start in _find_anchors(anchors, lowered) if has_value(text, start)]
            else:
                starts = named
            if starts:
                text = _mask_at_anchors(text, starts, mask, pattern)
        else:
            text = pattern.sub(mask, text)
        if text is not before and text != before:
            lowered, named = text.lower(), None
    return text


def _find_anchors(anchors: tuple[str, ...], lowered: str) -> list[int]:
    """Where one of the anchors begins, in order."""
    starts: list[int] = []
    for anchor in anchors:
        start = lowered.find(anchor)
        while start >= 0:
            starts.append(start)
            start = lowered.find(anchor, start + 1)
    return starts if len(anchors) == 1 else sorted(starts)


def _mask_at_anchors(text: str, starts: Sequence[int], mask: _Mask, pattern: re.Pattern[str]) -> str:
    parts, end = list[str](), 0
    for start in starts:
        if start >= end and (match := pattern.match(text, start)):
            parts += (text[end:start], mask(match))
            end = match.end()
    return "".join((*parts, text[end:])) if parts else text


def _mask_user_patterns(value: Any, extra: tuple[str, ...], mask: _Mask, fixed_keys: Container[str]) -> Any:
    """Mask everything that the user's own patterns match."""
    from fleetlore.user_patterns import compile_user_patterns

    texts = list(dict.fromkeys(text for text in _texts_in(value, fixed_keys) if text not in ("", MASK, WITHHELD)))
    results = dict(zip(texts, compile_user_patterns(extra).mask(texts, MASK), strict=True))

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
            if key not in _PLAIN_KEYS:
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
    return _find_key_context(key) or above


def _find_key_context(key: str) -> _SecretContext | None:
    lowered = key.lower()
    if not any(part in lowered for part in _SECRET_KEY_PARTS) or not _compile_expression(_SECRET_KEY_PATTERN).search(key):
        return _SecretContext(logins=True) if lowered in _LOGIN_KEYS else _SecretContext(tokens=True) if lowered in _COOKIE_KEYS else None
    return _SecretContext(True, _compile_expression(_NUMERIC_SECRET_PATTERN).search(key) is not None)


def _context_from_flag(before: Any, above: _SecretContext) -> _SecretContext:
    """So is the argument after a secret flag in a list of arguments."""
    if above.strings or not isinstance(before, str) or len(before) > _MAX_FLAG_CHARS:
        return above
    if before.startswith("--"):
        return _SecretContext(True, False) if _compile_expression(_SECRET_FLAG_PATTERN).fullmatch(before) else above
    # ["X-Api-Key", "…"], as of headers
    return _SecretContext(tokens=True) if _compile_expression(_SECRET_HEADER_PATTERN).fullmatch(before) else above


@cache
def _compile_words() -> re.Pattern[bytes]:
    import re

    return re.compile(_WORD_PATTERN.encode())


@cache
def _compile_rule(number: int) -> re.Pattern[str]:
    import re

    rule = RULES[number]
    flags = re.DOTALL | (re.IGNORECASE if rule.ignore_case else 0)
    return re.compile(rule.pattern.replace("{start}", START), flags)


@cache
def _compile_expression(source: str) -> re.Pattern[str]:
    import re

    return re.compile(source, re.IGNORECASE)
