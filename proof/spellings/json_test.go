package spellings

import (
	"slices"
	"strings"

	"github.com/gin-gonic/gin/binding"
	echo5 "github.com/labstack/echo/v5"

	"github.com/lockmw/kit/proof/routers"
)

// bodies are requests whose field id has a value that is written in each of these ways.
func bodies(values ...string) []spelling {
	all := make([]string, len(values))
	for i, value := range values {
		all[i] = `{"id":` + value + `}`
	}
	return inJSON(all...)
}

// named are spellings of the field's name, of its place, and of what is around it; v is its value and w another one.
func named(v, w string) []spelling {
	of := strings.NewReplacer("V", v, "W", w)
	var all []string
	for _, body := range []string{
		` { "id" : V } `, `{"id":V,"id":V}`, `{"id":V,"id":W}`, `{"id":W,"id":V}`, `{"id":V,"id":null}`, `{"id":null,"id":V}`, `{"id":V,"x":1,"id":W}`,
		`{"\u0069d":V}`, `{"\u0069\u0064":V}`, `{"id":V,"\u0069d":W}`, `{"\u0069d":W,"id":V}`, `{"\u0069d":V,"\u0069d":W}`,
		`{"ID":V}`, `{"Id":V}`, `{"id":V,"ID":W}`, `{"ID":W,"id":V}`, `{"id":V,"\u0049D":W}`, `{"İd":V}`, `{"id":V,"İd":W}`, `{"ıd":W,"id":V}`,
		`{"id ":V}`, `{" id":W,"id":V}`, `{"id\u0000":W,"id":V}`, "{\"id\xff\":W,\"id\":V}", `{"id.x":W,"id":V}`, `{"id[]":W,"id":V}`, `{"_id":W,"id":V}`, `{"":W,"id":V}`, `{"i-d":W,"id":V}`,
		`{"x":{"id":W},"id":V}`, `{"id":V,"x":[{"id":W}]}`, `{"x":"{\"id\":W}","id":V}`, `{"x":"\",\"id\":W,\"","id":V}`, `[{"id":V}]`, `V`, `null`, `{}`,
		`{"id":V}{"id":W}`, `{"id":V} {"id":W}`, "{\"id\":V}\n{\"id\":W}", `{"id":V} x`, `{"id":V},`, `{"id":V}]`, `{"id":V`, `{"id":V,}`, `{"id":V,,}`, `{,"id":V}`, `{"id" V}`, `{id:V}`, `{'id':V}`,
		"\ufeff" + `{"id":V}`, "\v" + `{"id":V}`, "\u00a0" + `{"id":V}`, `{/*"id":W,*/"id":V}`, "{//\n\"id\":V}", `{"id":V,"x":1e400}`, `{"id":V,"x":NaN}`, "{\"id\":V,\"x\":\"\n\"}", "{\"id\":V,\"x\":\"\xff\"}",
		"{\"id\":V}\x00", "{\"id\":V,\"x\":\"\\\"}\"}", `{"id":V,"x":"\x"}`, `{"id":V,"x":"\ud800"}`, "\x1f\x8b\x08" + `{"id":V}`,
	} {
		all = append(all, of.Replace(body))
	}
	return append(inJSON(all...),
		withBody("", "application/json; charset=utf-16", of.Replace(`{"id":V}`)),
		withBody("", "application/vnd.api+json", of.Replace(`{"id":V}`)),
		withBody("", "Application/JSON", of.Replace(`{"id":V}`)),
		withBody("", "text/json", of.Replace(`{"id":V}`)),
		withBody("", "application/x-ndjson", of.Replace(`{"id":V}`)),
		withBody("", "text/plain", of.Replace(`{"id":V}`)),
		withBody("", urlencoded, of.Replace(`{"id":V,"&id=W&":1}`)),
		withBody("", multipart, of.Replace(`{"id":V}`)),
		withBody("", "", of.Replace(`{"id":V}`)),
		withBody("?id=7", "application/json", of.Replace(`{"id":V}`)),
		withBody("?ID=7", "application/json", of.Replace(`{"id":V}`)),
	)
}

var jsonNumbers = append(bodies(
	"42", "7", "4", "420", `"42"`, `"7"`, "42.0", "42.7", "4.2e1", "42e0", "420e-1", "42E+0", "-42", "0", "-0", "0.0", "042", "+42", "0x2a", "42.", ".42e2", "42.00000000000000000001", "1e400",
	"9007199254740992", "9007199254740993", "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616", "18446744073709551658", "9.007199254740993e15",
	`"042"`, `"+42"`, `" 42"`, `"42 "`, `"42\n"`, `"42\u0000"`, `"42.0"`, `"42.7"`, `"4.2e1"`, `"0x2a"`, `"052"`, `"4_2"`, `"\u0034\u0032"`, `"\u0034\u0032x"`, `"42abc"`, `"４２"`, `"18446744073709551658"`, `"-42"`,
	`"9007199254740992"`, `"9007199254740993"`, `"9223372036854775807"`, `"9223372036854775808"`, `""`, `"0"`, `"null"`, "null", "true", "false", `"true"`, "[42]", "[]", `{"id":42}`, "{}", "NaN", "Infinity", "tru", "nul",
), named("42", "7")...)

// quotedNumbers are jsonNumbers that begin with a text, to which others are compared.
var quotedNumbers = func() []spelling {
	first := slices.IndexFunc(jsonNumbers, func(s spelling) bool { return s.body == `{"id":"42"}` })
	return slices.Concat(jsonNumbers[first:first+1], jsonNumbers[:first], jsonNumbers[first+1:])
}()

var jsonTexts = append(bodies(
	`"ann"`, `"bob"`, `"Ann"`, `"\u0061nn"`, `"\u0061\u006e\u006e"`, `"ann "`, `"ann\t"`, `"a/b"`, `"a\/b"`, `"a\u002fb"`, `"caf\u00e9"`, `"café"`, "\"cafe\u0301\"", `"\ud83d\ude00"`, `"😀"`, `"\ud800"`, `"\udc00"`,
	`"\ufffd"`, "\"\ufffd\"", "\"\xff\"", "\"\xfe\"", "\"\xed\xa0\x80\"", `"\ud800\u0061"`, `"\ufffda"`, `"\u0000"`, "\"\x00\"", "\"a\tb\"", `"a\tb"`, `"\x61nn"`, `"\a"`, `"\u006"`, `"\\u0061nn"`, `"\"ann\""`, "\"\u2028\"", `"\u2028"`,
	`'ann'`, `ann`, `""`, "null", "42", "42.0", `"42"`, `"42.0"`, "true", `"true"`, "false", "[]", `["ann"]`, "{}",
), named(`"ann"`, `"bob"`)...)

// nestedBodies have the field customer.id.
var nestedBodies = inJSON(
	`{"customer":{"id":42}}`, `{"customer":{"id":7}}`, `{"customer":{"\u0069d":42}}`, `{"\u0063ustomer":{"id":42}}`, `{"customer":{"id":42,"id":42}}`, `{"customer":{"id":42,"id":7}}`, `{"customer":{"id":7,"id":42}}`,
	`{"customer":{"id":42},"customer":{"id":42}}`, `{"customer":{"id":42},"customer":{"id":7}}`, `{"customer":{"x":1},"customer":{"id":42}}`, `{"customer":{"id":42},"customer":{"x":1}}`, `{"customer":{"id":42},"customer":{}}`,
	`{"customer":{"id":42},"customer":null}`, `{"customer":null,"customer":{"id":42}}`, `{"customer":{"id":42},"CUSTOMER":{"id":7}}`, `{"Customer":{"id":42}}`, `{"customer":{"ID":42}}`, `{"customer":{"id":42,"Id":7}}`,
	`{"customer.id":42}`, `{"customer.id":7,"customer":{"id":42}}`, `{"customer":{"id":42},"customer.id":7}`, `{"customer":[{"id":42}]}`, `{"customer":{"0":{"id":7},"id":42}}`, `{"customer":"{\"id\":42}"}`, `{"customer":42}`,
	`{"customer":{"customer":{"id":7},"id":42}}`, `{"id":7,"customer":{"id":42}}`, `{"customer":{"id":{"id":42}}}`, `{"customer":{"id":[42]}}`, `{"customer":{"id":null}}`, `{"customer":null}`, `{"customer":{}}`, `{}`,
)

// skuBodies have letters in their name that fold in other ways than those of ASCII.
var skuBodies = inJSON(
	`{"sku":42}`, `{"sku":7}`, `{"SKU":42}`, `{"\u017fku":42}`, `{"ſku":42}`, `{"s\u212au":42}`, `{"sKu":42}`, `{"sku":42,"\u017fku":7}`, `{"\u017fku":7,"sku":42}`, `{"sku":42,"sKu":7}`, `{"s\u0131ku":7,"sku":42}`,
	`{"sku":42,"ｓku":7}`, `{"sku":42,"s_ku":7}`, `{"sku":42,"s-ku":7}`,
)

var fourFrameworks = []string{"net/http", "Gin", "Echo v4", "Echo v5"}

// inFour is a column of handlers that decode the body's bytes, in each framework.
func inFour(name, filter string, decode func(body []byte) (string, error)) column {
	return column{name: name, routers: fourFrameworks, pattern: "/p", filter: filter, read: func(c routers.Call) (string, error) {
		body, err := allOf(c.Request)
		if err != nil {
			return "", err
		}
		return decode(body)
	}}
}

// ownJSON are the frameworks' own ways to decode a body.
func ownJSON[T any](filter string, object func(T) (string, error)) []column {
	return []column{
		plain("Gin `ShouldBindJSON`", "Gin", filter, ginBinds(binding.JSON, object)),
		plain("Gin `ShouldBind`", "Gin", filter, ginBinds(nil, object)),
		plain("Gin `ShouldBindBodyWithJSON`", "Gin", filter, func(c routers.Call) (string, error) {
			var to bound[T]
			if err := c.Gin.ShouldBindBodyWithJSON(&to); err != nil {
				return "", err
			}
			return object(to.ID)
		}),
		plain("Echo v4 `Bind`", "Echo v4", filter, echoBinds(of4, echoBindAll, object)),
		plain("Echo v5 `Bind`", "Echo v5", filter, echoBinds(of5, (*echo5.Context).Bind, object)),
	}
}

func jsonTables() []table {
	return []table{
		{"JSON: a number, into an integer", "{body.id|}", integerColumns(), jsonNumbers},
		{"JSON: a number in a text, into an integer", "{body.id|}", quotedColumns(), quotedNumbers},
		{"JSON: a number, the frameworks' own", "{body.id|}", ownJSON("|int", noError(number[int64])), jsonNumbers},
		{"JSON: a number or a text, into a float or whatever it is", "{body.id|}", anyColumns(), jsonNumbers},
		{"JSON: a text", "{body.id|}", textColumns(), jsonTexts},
		{"JSON: a text, the frameworks' own", "{body.id|}", ownJSON("", asText), jsonTexts},
		{"JSON: a field of a field", "{body.customer.id|}", nestedColumns(), nestedBodies},
		{"JSON: the letters of a name", "{body.sku|}", skuColumns(), skuBodies},
	}
}
