package armtemplate

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// Functions on URIs (template-functions-string).
var uriFunctions = map[string]function{
	"dataUri": {min: 1, max: 1, text: true, call: onText(func(s string) any {
		return "data:text/plain;charset=utf8;base64," + base64.StdEncoding.EncodeToString([]byte(s))
	})},
	"dataUriToString":      {min: 1, max: 1, text: true, call: dataURIToString},
	"uri":                  {min: 2, max: 2, text: true, call: joinURI},
	"uriComponentToString": {min: 1, max: 1, text: true, call: uriComponentToString},
}

func dataURIToString(_ *scope, args []any) (any, error) {
	s, _ := args[0].(string)
	head, data, found := strings.Cut(s, ",")
	if !found || !strings.HasPrefix(head, "data:") {
		return nil, fmt.Errorf("%s is not a data URI", shorten(s))
	}
	if !strings.HasSuffix(head, ";base64") {
		return uriComponentToString(nil, []any{data})
	}
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil || !utf8.Valid(raw) {
		return nil, fmt.Errorf("it is not the base64 form of a text")
	}
	return string(raw), nil
}

// joinURI resolves a relative URI. It replaces everything after the last slash of the base.
func joinURI(_ *scope, args []any) (any, error) {
	base, isBase := args[0].(string)
	relative, isRelative := args[1].(string)
	if !isBase || !isRelative {
		return nil, fmt.Errorf("expected strings")
	}
	from, err := url.Parse(base)
	if err != nil || !from.IsAbs() {
		return nil, fmt.Errorf("%s is not an absolute URI", shorten(base))
	}
	to, err := from.Parse(relative)
	if err != nil {
		return nil, fmt.Errorf("%s is not a relative URI", shorten(relative))
	}
	return to.String(), nil
}

func uriComponentToString(_ *scope, args []any) (any, error) {
	s, is := args[0].(string)
	if !is {
		return nil, fmt.Errorf("expected a string, not %s", kindOf(args[0]))
	}
	text, err := url.PathUnescape(s)
	if err != nil || !utf8.ValidString(text) {
		return nil, fmt.Errorf("%s is not correctly escaped for a URI", shorten(s))
	}
	return text, nil
}
