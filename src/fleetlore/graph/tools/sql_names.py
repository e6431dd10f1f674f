"""Allow lists for queries: functions without side effects, and the parts of a read-only statement.

Everything else is refused: functions that read files, wait, lock, set, connect or run other SQL, and those defined in the database.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

SqlDialect: TypeAlias = Literal["sqlite", "postgres", "mysql"]


def _parse_names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SYNTAX_WORDS = _parse_names("""
    all and any array as between by case cube distinct else end escape except exists extract filter from group grouping having
    ilike in intersect is join lateral like limit materialized not null offset on or order over partition recursive rollup row rows
    select sets similar some symmetric then to union unnest using values when where with within zone
""")
"""Keywords that may precede a parenthesis without being a call."""

SIZED_TYPES = _parse_names("""
    binary bit char character date datetime dec decimal double float int integer interval nchar numeric nvarchar signed text time
    timestamp timestamptz timetz unsigned varbinary varbit varchar varying year
""")
"""Types that may have a size."""

_COMMON_FUNCTIONS = _parse_names("""
    abs acos asin atan atan2 avg cast ceil ceiling char_length character_length coalesce concat concat_ws cos count cume_dist date
    degrees dense_rank exp first_value floor greatest if ifnull instr json_array json_object lag last_value lead least left length ln
    localtime log log10 log2 lower lpad ltrim max md5 min mod now nth_value ntile nullif octet_length percent_rank pi position pow power
    radians rank repeat replace reverse right round row_number rpad rtrim sign sin sqrt substr substring sum tan trim upper version
    current_date current_time current_timestamp localtimestamp
""")

_SQLITE_FUNCTIONS = _parse_names("""
    acosh asinh atanh bm25 char cosh datetime format glob group_concat hex highlight iif json json_array_length json_each
    json_error_position json_extract json_group_array json_group_object json_insert json_patch json_pretty json_quote json_remove
    json_replace json_set json_tree json_type json_valid julianday like likelihood likely median nullif percentile percentile_cont
    percentile_disc printf quote random sinh snippet sqlite_version strftime string_agg tanh time timediff total trunc typeof unhex
    unicode unistr unixepoch unlikely pragma_foreign_key_list pragma_index_info pragma_index_list pragma_index_xinfo pragma_table_info
    pragma_table_list pragma_table_xinfo soundex
""")

_POSTGRES_FUNCTIONS = _parse_names("""
    age array_agg array_append array_cat array_dims array_fill array_length array_lower array_ndims array_position array_positions
    array_prepend array_remove array_replace array_to_json array_to_string array_upper ascii bit_and bit_length bit_or bit_xor bool_and
    bool_or bpchar btrim cardinality cbrt chr clock_timestamp convert_from convert_to corr cosd cot covar_pop covar_samp date_bin
    date_part date_trunc decode div encode erf erfc every factorial format gcd generate_series generate_subscripts initcap isempty
    isfinite json_agg json_array_elements json_array_elements_text json_array_length json_build_array json_build_object json_each
    json_each_text json_extract_path json_extract_path_text json_object_agg json_object_keys json_strip_nulls json_to_record
    json_to_recordset json_typeof jsonb_agg jsonb_array_elements jsonb_array_elements_text jsonb_array_length jsonb_build_array
    jsonb_build_object jsonb_each jsonb_each_text jsonb_extract_path jsonb_extract_path_text jsonb_insert jsonb_object jsonb_object_agg
    jsonb_object_keys jsonb_path_exists jsonb_path_match jsonb_path_query jsonb_path_query_array jsonb_path_query_first jsonb_pretty
    jsonb_set jsonb_strip_nulls jsonb_to_record jsonb_to_recordset jsonb_typeof justify_days justify_hours justify_interval lcm
    lower_inc lower_inf make_date make_interval make_time make_timestamp make_timestamptz min_scale mode multirange num_nonnulls
    num_nulls overlay percentile_cont percentile_disc phraseto_tsquery plainto_tsquery quote_ident quote_literal quote_nullable random
    range_agg range_merge regexp_count regexp_instr regexp_like regexp_match regexp_matches regexp_replace regexp_split_to_array
    regexp_split_to_table regexp_substr regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
    row_to_json scale sha224 sha256 sha384 sha512 sind split_part starts_with statement_timestamp stddev stddev_pop stddev_samp
    string_agg string_to_array string_to_table strpos tand timeofday timezone to_ascii to_char to_date to_hex to_json to_jsonb to_number
    to_timestamp to_tsquery to_tsvector transaction_timestamp translate trim_array trim_scale trunc ts_headline ts_rank ts_rank_cd
    upper_inc upper_inf var_pop var_samp variance websearch_to_tsquery width_bucket daterange int4range int8range numrange tsrange
    tstzrange
""")

_MYSQL_FUNCTIONS = _parse_names("""
    adddate addtime against ascii bin bit_and bit_count bit_length bit_or bit_xor char concat conv convert convert_tz cot crc32 curdate
    curtime database date_add date_format date_sub datediff day dayname dayofmonth dayofweek dayofyear elt export_set field find_in_set
    format format_bytes from_base64 from_days from_unixtime get_format group_concat hex hour inet6_aton inet6_ntoa inet_aton inet_ntoa
    isnull json_array_append json_array_insert json_arrayagg json_compact json_contains json_contains_path json_depth json_detailed
    json_equals json_exists json_extract json_insert json_keys json_length json_loose json_merge_patch json_merge_preserve
    json_normalize json_objectagg json_overlaps json_pretty json_query json_quote json_remove json_replace json_search json_set
    json_type json_unquote json_valid json_value last_day lcase locate make_set makedate maketime match median microsecond
    mid minute month monthname natural_sort_key oct ord percentile_cont percentile_disc period_add period_diff quarter quote rand regexp
    regexp_instr regexp_like regexp_replace regexp_substr rlike schema sec_to_time second sha sha1 sha2 sformat soundex space std stddev
    stddev_pop stddev_samp str_to_date strcmp subdate substring_index subtime sysdate time time_format time_to_sec timediff timestampadd
    timestampdiff to_base64 to_char to_days to_seconds truncate ucase unhex unix_timestamp utc_date utc_time utc_timestamp uuid var_pop
    var_samp variance week weekday weekofyear weight_string yearweek xor div
""")

ALLOWED_FUNCTIONS: dict[SqlDialect, frozenset[str]] = {
    "sqlite": _COMMON_FUNCTIONS | _SQLITE_FUNCTIONS,
    "postgres": _COMMON_FUNCTIONS | _POSTGRES_FUNCTIONS,
    "mysql": _COMMON_FUNCTIONS | _MYSQL_FUNCTIONS,
}

SYSTEM_SCHEMAS = _parse_names("mysql performance_schema sys pg_catalog pg_toast pg_temp")
"""Schemas with users, passwords and other sessions' queries. `information_schema` is allowed instead."""

ALLOWED_PARTS = _parse_names("""
    Select Union Intersect Except Subquery With CTE From Join Where Group Having Order Ordered Limit Offset Fetch Distinct Values Tuple
    Table TableAlias Alias Aliases Column ColumnDef Identifier Star Literal Null Boolean HexString BitString ByteString Paren Var
    DataType DataTypeParam Interval IntervalSpan IntervalOp Window WindowSpec Filter WithinGroup IgnoreNulls RespectNulls Lateral Unnest
    Bracket Slice Collate AtTimeZone Cube Rollup GroupingSets Exists Any All In Between Is Not Neg BitwiseNot Escape Add Adjacent And
    BitwiseAnd BitwiseLeftShift BitwiseOr BitwiseRightShift BitwiseXor DPipe Distance Div EQ GT GTE Glob ILike IntDiv LT LTE Like Match
    Mod Mul NEQ NullSafeEQ NullSafeNEQ Or Overlaps Pow SimilarTo Sub Xor JSONPath JSONPathFilter JSONPathKey JSONPathRecursive
    JSONPathRoot JSONPathScript JSONPathSlice JSONPathSelector JSONPathSubscript JSONPathUnion JSONPathWildcard JSONKeyValue JSONTable
    JSONSchema JSONColumnDef CharacterSet LimitOptions
""")
"""Parts of a statement besides functions, by sqlglot's class names."""

FORBIDDEN_PARTS = _parse_names("NextValueFor")
"""What sqlglot parses as a function although it changes something."""
