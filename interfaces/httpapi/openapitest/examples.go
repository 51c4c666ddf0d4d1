package openapitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Examples are the places of all examples in the description, as JSON Pointers. What is
// said of HEAD is said of GET, and left out.
func (s *Spec) Examples() []string {
	var at []string
	var walk func(n node)
	walk = func(n node) {
		for name, value := range n.members {
			here := node{spec: s, at: n.at, members: n.members}
			switch value := value.(type) {
			case map[string]any:
				if name == "head" {
					continue
				}
				below := node{spec: s, at: here.at + "/" + escape(name), members: value}
				if name == "examples" {
					for named := range value {
						at = append(at, below.at+"/"+escape(named))
					}
					continue
				}
				walk(below)
			case []any:
				for i, item := range value {
					if members, ok := item.(map[string]any); ok {
						walk(node{spec: s, at: fmt.Sprintf("%s/%s/%d", here.at, escape(name), i), members: members})
					}
				}
			}
			if name == "example" {
				at = append(at, here.at+"/example")
			}
		}
	}
	walk(s.root)
	slices.Sort(at)
	return at
}

// CheckExamples holds the examples of a name, of the answer's body and of the request's,
// to the exchange, which must have one: it is what they show. It returns their places, and
// those of the parameters' examples that are what was sent.
func (s *Spec) CheckExamples(name string, e *Exchange) (held []string, err error) {
	responses, operation, inPath := s.responses(e)
	kind, _, err := mime.ParseMediaType(e.ResponseHeader.Get("Content-Type"))
	if err != nil {
		return nil, fmt.Errorf("Content-Type: %w", err)
	}
	query, err := url.ParseQuery(e.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	for _, parameter := range append(operation.path.list("parameters"), operation.list("parameters")...) {
		name, _ := parameter.members["name"].(string)
		sent := map[any]string{"query": query.Get(name), "header": e.Header.Get(name), "path": inPath[name]}[parameter.members["in"]]
		if example, ok := parameter.members["example"]; ok && fmt.Sprint(example) == sent {
			held = append(held, parameter.at+"/example")
		}
	}
	shown := responses.child(fmt.Sprint(e.Status), "content", kind, "examples", name)
	if !shown.exists() {
		return held, errors.New("the description has no example of it")
	}
	errs := []error{shown.show(kind, e.Body)}
	held = append(held, shown.at)
	if asked := operation.child("requestBody", "content", "application/json", "examples", name); asked.exists() {
		errs = append(errs, asked.show("application/json", e.Sent))
		held = append(held, asked.at)
	}
	return held, errors.Join(errs...)
}

// show holds an example to what it is one of.
func (n node) show(kind string, text []byte) error {
	var value any = string(text)
	if strings.HasSuffix(kind, "/json") || strings.HasSuffix(kind, "+json") {
		var err error
		if value, err = jsonschema.UnmarshalJSON(bytes.NewReader(text)); err != nil {
			return err
		}
	}
	if !reflect.DeepEqual(value, n.members["value"]) {
		is, err := json.Marshal(n.members["value"])
		return errors.Join(fmt.Errorf("the example is\n%s\nand not\n%s", is, text), err)
	}
	return nil
}
