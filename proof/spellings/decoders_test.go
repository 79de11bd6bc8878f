package spellings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/buger/jsonparser"
	json2 "github.com/go-json-experiment/json"
	gojson "github.com/goccy/go-json"
	jsoniter "github.com/json-iterator/go"
	"github.com/tidwall/gjson"
	"github.com/valyala/fastjson"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

func allOf(r *http.Request) ([]byte, error) { return io.ReadAll(r.Body) }

// An unmarshaler is one of those that decode into a value of Go.
type unmarshaler struct {
	name      string
	unmarshal func(body []byte, to any) error
}

// decoded is what json.Decoder reads first, as most handlers of net/http have it.
func decoded(body []byte, to any) error { return json.NewDecoder(bytes.NewReader(body)).Decode(to) }

var unmarshalers = []unmarshaler{
	{"encoding/json", json.Unmarshal},
	{"`json.Decoder`", decoded},
	{"encoding/json/v2", func(body []byte, to any) error { return json2.Unmarshal(body, to) }},
	{"encoding/json/v2 with `MatchCaseInsensitiveNames`", func(body []byte, to any) error {
		return json2.Unmarshal(body, to, json2.MatchCaseInsensitiveNames(true))
	}},
	{"json-iterator", jsoniter.ConfigCompatibleWithStandardLibrary.Unmarshal},
	{"json-iterator `ConfigFastest`", jsoniter.ConfigFastest.Unmarshal},
	{"goccy/go-json", gojson.Unmarshal},
}

// intoStruct are columns of handlers that decode into a T, which object reads.
func intoStruct[T any](filter string, object func(*T) (string, error)) (all []column) {
	for _, u := range unmarshalers {
		all = append(all, inFour(u.name, filter, func(body []byte) (string, error) {
			var to T
			if err := u.unmarshal(body, &to); err != nil {
				return "", err
			}
			return object(&to)
		}))
	}
	return all
}

type integers struct {
	ID int64 `json:"id"`
}

// quoted is how services read 64 bits that browsers send as a text.
type quoted struct {
	ID int64 `json:"id,string"`
}

type texts struct {
	ID string `json:"id"`
}

type anything struct {
	ID any `json:"id"`
}

// fastFields parses a body; fastjson's handlers ask the value for fields.
func fastFields(body []byte) (*fastjson.Value, error) {
	var p fastjson.Parser
	return p.ParseBytes(body)
}

func integerColumns() []column {
	const filter = "|int"
	return append(intoStruct(filter, func(to *integers) (string, error) { return number(to.ID, nil) }),
		inFour("gjson `Int`", filter, func(body []byte) (string, error) { return number(gjson.GetBytes(body, "id").Int(), nil) }),
		inFour("jsonparser `GetInt`", filter, func(body []byte) (string, error) { return number(jsonparser.GetInt(body, "id")) }),
		inFour("fastjson `GetInt64`", filter, func(body []byte) (string, error) {
			fields, err := fastFields(body)
			if err != nil {
				return "", err
			}
			return number(fields.GetInt64("id"), nil)
		}),
		inFour("json-iterator `Get`, `ToInt64`", filter, func(body []byte) (string, error) { return number(jsoniter.Get(body, "id").ToInt64(), nil) }),
		inFour("protojson", filter, protoID),
	)
}

// quotedColumns are for handlers that want the number in a text.
func quotedColumns() []column {
	const filter = "|int"
	return []column{
		inFour("encoding/json `,string`", filter, func(body []byte) (string, error) {
			var to quoted
			err := json.Unmarshal(body, &to)
			return number(to.ID, err)
		}),
		inFour("encoding/json/v2 `,string`", filter, func(body []byte) (string, error) {
			var to quoted
			err := json2.Unmarshal(body, &to)
			return number(to.ID, err)
		}),
	}
}

func textColumns() []column {
	return append(intoStruct("", func(to *texts) (string, error) { return asText(to.ID) }),
		inFour("gjson `String`", "", func(body []byte) (string, error) { return asText(gjson.GetBytes(body, "id").String()) }),
		inFour("jsonparser `GetString`", "", func(body []byte) (string, error) {
			id, err := jsonparser.GetString(body, "id")
			if err != nil {
				return "", err
			}
			return asText(id)
		}),
		inFour("jsonparser `GetUnsafeString`", "", func(body []byte) (string, error) {
			id, err := jsonparser.GetUnsafeString(body, "id")
			if err != nil {
				return "", err
			}
			return asText(id)
		}),
		inFour("fastjson `GetStringBytes`", "", func(body []byte) (string, error) {
			fields, err := fastFields(body)
			if err != nil {
				return "", err
			}
			return asText(string(fields.GetStringBytes("id")))
		}),
		inFour("json-iterator `Get`, `ToString`", "", func(body []byte) (string, error) { return asText(jsoniter.Get(body, "id").ToString()) }),
	)
}

func anyColumns() []column {
	return append(append(intoStruct("", func(to *anything) (string, error) { return asAny(to.ID) }),
		intoMap()...),
		inFour("`UseNumber`", "|int", func(body []byte) (string, error) {
			var to anything
			d := json.NewDecoder(bytes.NewReader(body))
			d.UseNumber()
			if err := d.Decode(&to); err != nil {
				return "", err
			}
			return asAny(to.ID)
		}),
		inFour("gjson `Value`", "", func(body []byte) (string, error) { return asAny(gjson.GetBytes(body, "id").Value()) }),
		inFour("gjson `Float`", "|int", func(body []byte) (string, error) { return asFloat(gjson.GetBytes(body, "id").Float(), nil) }),
		inFour("jsonparser `GetFloat`", "", func(body []byte) (string, error) { return asFloat(jsonparser.GetFloat(body, "id")) }),
		inFour("fastjson `GetFloat64`", "", func(body []byte) (string, error) {
			fields, err := fastFields(body)
			if err != nil {
				return "", err
			}
			return asFloat(fields.GetFloat64("id"), nil)
		}),
	)
}

// intoMap is encoding/json into a map, which does not fold the case of names.
func intoMap() []column {
	return []column{inFour("encoding/json, a map", "", func(body []byte) (string, error) {
		var to map[string]any
		if err := json.Unmarshal(body, &to); err != nil {
			return "", err
		}
		return asAny(to["id"])
	})}
}

// asAny is what a handler makes of a value of any scalar type.
func asAny(value any) (string, error) {
	switch value := value.(type) {
	case string:
		return asText(value)
	case json.Number:
		return asText(value.String())
	case bool:
		return strconv.FormatBool(value), nil
	case float64:
		return asFloat(value, nil)
	}
	return "", errNothing
}

func nestedColumns() []column {
	type order struct {
		Customer integers `json:"customer"`
	}
	type pointing struct {
		Customer *integers `json:"customer"`
	}
	return append(append(intoStruct("|int", func(to *order) (string, error) { return number(to.Customer.ID, nil) }),
		inFour("encoding/json, a pointer", "|int", func(body []byte) (string, error) {
			var to pointing
			if err := json.Unmarshal(body, &to); err != nil {
				return "", err
			}
			if to.Customer == nil {
				return "", errNothing
			}
			return number(to.Customer.ID, nil)
		}),
		inFour("gjson `customer.id`", "|int", func(body []byte) (string, error) { return number(gjson.GetBytes(body, "customer.id").Int(), nil) })),
		inFour("jsonparser", "|int", func(body []byte) (string, error) { return number(jsonparser.GetInt(body, "customer", "id")) }),
		inFour("fastjson", "|int", func(body []byte) (string, error) {
			fields, err := fastFields(body)
			if err != nil {
				return "", err
			}
			return number(fields.GetInt64("customer", "id"), nil)
		}),
	)
}

func skuColumns() []column {
	type item struct {
		SKU int64 `json:"sku"`
	}
	return append(intoStruct("|int", func(to *item) (string, error) { return number(to.SKU, nil) }),
		inFour("gjson `Int`", "|int", func(body []byte) (string, error) { return number(gjson.GetBytes(body, "sku").Int(), nil) }),
		inFour("jsonparser `GetInt`", "|int", func(body []byte) (string, error) { return number(jsonparser.GetInt(body, "sku")) }),
		inFour("fastjson `GetInt64`", "|int", func(body []byte) (string, error) {
			fields, err := fastFields(body)
			if err != nil {
				return "", err
			}
			return number(fields.GetInt64("sku"), nil)
		}),
	)
}

// orderMessage is a message with the field id, of 64 bits.
var orderMessage = func() protoreflect.MessageDescriptor {
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new("order.proto"), Syntax: new("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: new("Order"), Field: []*descriptorpb.FieldDescriptorProto{{
			Name: new("id"), Number: new(int32(1)),
			Type: descriptorpb.FieldDescriptorProto_TYPE_INT64.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}}}},
	}, nil)
	if err != nil {
		panic(fmt.Sprint("order.proto: ", err))
	}
	return file.Messages().ByName("Order")
}()

// protoID is what protojson reads, unknown fields aside.
func protoID(body []byte) (string, error) {
	to := dynamicpb.NewMessage(orderMessage)
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, to); err != nil {
		return "", err
	}
	return number(to.Get(orderMessage.Fields().ByName("id")).Int(), nil)
}
