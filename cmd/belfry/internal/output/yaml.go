package output

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// yamlOf returns the YAML document with the fields, the order and the digits of a value's JSON.
func yamlOf(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	tokens := json.NewDecoder(bytes.NewReader(text))
	tokens.UseNumber()
	node, err := nextNode(tokens)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	doc := yaml.NewEncoder(&out)
	doc.SetIndent(2)
	if err := doc.Encode(node); err != nil {
		return nil, err
	}
	return out.Bytes(), doc.Close()
}

// nextNode reads a JSON value.
func nextNode(tokens *json.Decoder) (*yaml.Node, error) {
	token, err := tokens.Token()
	if err != nil {
		return nil, err
	}
	switch value := token.(type) {
	case json.Delim:
		node := &yaml.Node{Kind: yaml.MappingNode}
		if value == '[' {
			node.Kind = yaml.SequenceNode
		}
		for tokens.More() { // keys of an object are tokens like its values
			child, err := nextNode(tokens)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, child)
		}
		if len(node.Content) == 0 {
			node.Style = yaml.FlowStyle
		}
		_, err = tokens.Token() // the end of the object or the list
		return node, err
	case json.Number:
		return numberNode(value.String()), nil
	case string:
		return textNode(value)
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(value)}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
}

// textNode returns a text, in quotes if any reader could take it for something else: "no" is false in YAML 1.1.
func textNode(value string) (*yaml.Node, error) {
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
	text, err := yaml.Marshal(value)
	if err == nil && (text[0] == '"' || Lines(value) != value) {
		node.Style = yaml.DoubleQuotedStyle
	}
	return node, err
}

// numberNode returns a number with its digits. Without a tag a plain scalar stays as it is.
func numberNode(digits string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: digits} }
