package client

import "strings"

// values are texts, some of which are JSON.
var values = []string{
	``, ` `, `{}`, `[]`, ` { } `, `{"a":1}`, `{"a":1,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1 "b":2}`, `{"a" : [1, 2.5e-3, {"b":null}] }`,
	`[1,2`, `[1 2]`, `[,]`, `[1,]`, `]`, `}`, `{]`, `[}`, `[[[]],{}]`, `{"a":{"b":{}}}x`, `1`, `-0`, `-`, `01`, `1.`, `.5`, `1e`,
	`1e+`, `1E-05`, `-1.50`, `"x"`, `"`, `"\"`, `"\u00e9"`, `"\u00e"`, `"\x"`, "\"\x01\"", "\"\xff\"", `true`, `tru`, `falsey`, `null`,
	`nul`, "\"a\nb\"", "{\n\"a\":\r1\t}", `{"a":1}{"b":2}`, `{},"queue":"x"`, `1,2`, `{"":""}`, `[true,false,null,"s",-1]`,
	strings.Repeat("[", 999) + strings.Repeat("]", 999), strings.Repeat("[", 1001) + strings.Repeat("]", 1001),
	strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70), strings.Repeat(`{"a":[`, 70) + strings.Repeat("}]", 70),
	strings.Repeat("[", 1001), `{"`, `{"a`, `{"a":"b`, `"\`, "{\"a\":\"\x01\"}",
	`{"a":"\x"}`, `{"\`, `{"a":{"b`, `{"a":[0,-0.5`,
}

// orderPayload is a typical payload of about 200 bytes.
const orderPayload = `{"order":1042,"customer":{"id":"c-88213","tier":"gold"},"items":[{"sku":"A-1001","count":2},` +
	`{"sku":"B-2044","count":1}],"total":129.95,"currency":"EUR","note":"close unless it is paid","attempt":1}`
