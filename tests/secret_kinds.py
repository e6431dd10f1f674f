"""Secrets of many kinds, made at random from the shapes in `fleetlore.redact` and from texts in which they are found."""

from __future__ import annotations

import base64
import random
import re
import string
from collections.abc import Iterator
from typing import NamedTuple

from fleetlore.redact import RULES

_ALPHABETS = {
    "X": string.ascii_letters + string.digits,
    "a": string.ascii_letters,
    "h": "0123456789abcdef",
    "U": string.ascii_uppercase + string.digits,
}


class SecretText(NamedTuple):
    """A text, and the secrets in it."""

    name: str
    text: str
    secrets: tuple[str, ...]


def fill_shape(shape: str, chance: random.Random) -> str:
    """A shape with random characters for `{X20}` and the like."""

    def fill(match: re.Match[str]) -> str:
        if match[0] == "{B64}":
            return base64.b64encode(f"user:{fill_shape('{X20}', chance)}".encode()).decode()
        letters = "".join(chance.choices(_ALPHABETS[match[1]], k=int(match[2])))
        return letters[:-2] + chance.choice(string.ascii_lowercase) + chance.choice("0123456789") if match[1] == "X" else letters

    return re.sub(r"\{([XahU])(\d+)\}|\{B64\}", fill, shape)


def make_secret(name: str, shape: str, chance: random.Random) -> SecretText:
    """A text from a shape in which « and » enclose the secrets."""
    text = fill_shape(shape, chance)
    return SecretText(name, re.sub("[«»]", "", text), tuple(re.findall("«(.*?)»", text, re.DOTALL)))


def of_rules(chance: random.Random) -> Iterator[SecretText]:
    """One text for each example of the table."""
    for rule in RULES:
        for number, example in enumerate(rule.examples):
            yield make_secret(f"{rule.name} {number}", example, chance)


IN_THE_WILD = {
    "AWS credentials file": "[default]\naws_access_key_id = «AKIA{U16}»\naws_secret_access_key = «{X40}»\n",
    "AWS key in CSV": "User name,Access key ID,Secret access key\nbob,«AKIA{U16}»,«{X40}»\n",
    "service account": '{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\\n«{X64}»\\n-----END PRIVATE KEY-----\\n"}',
    "Azure secret in the environment": "AZURE_CLIENT_SECRET=«{X3}8Q~{X34}»",
    "DevOps clone": "git clone https://«{X52}»@dev.azure.test/shop/_git/app",
    "Cloudflare": "CLOUDFLARE_API_TOKEN=«{X40}»",
    "GitHub clone": "git clone https://«ghp_{X36}»@github.test/a/b.git",
    "Stripe in code": "stripe.api_key = '«sk_live_{X24}»'",
    "key without its head": "«{X64}»\n«{X64}»\n«{X30}»==\n-----END RSA PRIVATE KEY-----",
    "npmrc token": "//registry.test/:_authToken=«{h36}»",
    "npmrc login": "_auth=«{B64}»",
    "Docker configuration": '{"auths":{"docker.test":{"auth":"«{B64}»"}}}',
    "Docker configuration, indented": '{\n  "auths": {\n    "docker.test": {\n      "auth": "«{B64}»"\n    }\n  }\n}',
    "database address": "DATABASE_URL=postgres://ada:«{X16}»@db.test:5432/shop",
    "broker address": "amqp://ada:«{X16}»@mq.test",
    "curl with quotes": "curl --user 'admin:«{X16}»' https://x.test",
    "mysqldump": "mysqldump -h db.test -u root -p'«{X16}»' shop",
    "psql": "PGPASSWORD=«{X16}» psql -h db.test",
    "docker run": "docker run -e DB_PASS=«{X16}» -e MYSQL_ROOT_PASSWORD=«{X16}» mysql",
    "compose file": "environment:\n  - DB_PWD=«{X16}»\n",
    "Kubernetes secret": "apiVersion: v1\nkind: Secret\ntype: Opaque\ndata:\n  password: «{B64}»\n",
    "settings in JSON": '{"db": {"user": "ada", "password": "«{X16}»"}}',
    "settings in YAML": "db:\n  user: ada\n  password: «{X16}»\n",
    "letters in YAML": "db:\n  password: «{a16}»\n",
    "words in YAML": 'db:\n  password: "«correct horse battery staple»"\n',
    "environment in base64": "echo «{E64}» | base64 -d > .env",
    "cookie of a request": "GET / HTTP/1.1\nHost: x.test\nCookie: theme=dark; sessionid=«{X32}»\n",
    "cookie of curl": "curl -H 'Cookie: session=«{X32}»' https://x.test",
    "bearer in a header": 'curl -H "Authorization: Bearer «{X40}»" https://x.test',
    "bearer of letters": "Authorization: Bearer «{a40}»",
    "header of a gateway": "X-Api-Key: «{h32}»",
    "bot token in a message": "The Discord bot logs in with «M{X23}.{X6}.{X38}»",
    "Airtable token": "AIRTABLE_API_KEY=«pat{X14}.{h64}»",
    "Datadog": "DD_API_KEY=«{h32}» DD_APP_KEY=«{h40}»",
    "Twilio": "TWILIO_AUTH_TOKEN=«{h32}»",
    "gradle": "signing.password=«{X16}»\n",
    "PowerShell": '$env:API_KEY = "«{X32}»"',
    "Terraform variable": 'db_password = "«{X16}»"',
    "Rails master key": "RAILS_MASTER_KEY=«{h32}»",
    "Django": "SECRET_KEY = 'django-insecure-«{X50}»'",
    "flag of a tool": "vault login -method=userpass username=ada password=«{X16}»",
    "flag with an equals sign": "helm upgrade x --set auth.password=«{X16}»",
    "Java address": "jdbc:postgresql://db.test/shop?user=ada&password=«{X16}»",
    "ODBC": "Server=db.test;Uid=ada;Pwd=«{X16}»;",
    "SAS": "https://x.blob.test/c?sv=2024&se=2026-01-01&sig=«{X43}%3D»",
    "Slack webhook": "curl -X POST https://hooks.slack.com/services/T{U9}/B{U9}/«{X24}»",
}
"""Texts in which a secret stands as people meet it."""


def in_the_wild(chance: random.Random) -> Iterator[SecretText]:
    """One text of each."""
    for name, shape in IN_THE_WILD.items():
        if "{E64}" in shape:
            inner = fill_shape("DB_HOST=db.test\nDB_PASSWORD={X16}\n", chance)
            shape = shape.replace("{E64}", base64.b64encode(inner.encode()).decode())
        yield make_secret(name, shape, chance)
