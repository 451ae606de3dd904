package armtemplate

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Functions on text (template-functions-string).
var textFunctions = map[string]function{
	"base64": onText(func(s string) string {
		return base64.StdEncoding.EncodeToString([]byte(s))
	}),
	"base64ToString": textual(fromBase64(func(_ *scope, s string) (any, error) {
		return s, nil
	})),
	"base64ToJson": fromBase64(parseText),
	"format":       {min: 1, max: -1, open: true, call: format},
	"guid":         onAll(guid),
	"uniqueString": onAll(uniqueString),
	"newGuid":      {call: newGUID},
	"utcNow":       {max: 1, call: utcNow},
	"toLower":      {min: 1, max: 1, open: true, call: lower},
	"toUpper":      onText(strings.ToUpper),
	"trim":         onText(strings.TrimSpace),
	"uri":          textual(typed2(joinURI)),
	"uriComponent": onText(func(s string) string {
		return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
	}),
	"string": {min: 1, max: 1, open: true, call: toText},
	"startsWith": onTexts(func(a, b string) any {
		return strings.HasPrefix(strings.ToLower(a), strings.ToLower(b))
	}),
	"endsWith": onTexts(func(a, b string) any {
		return strings.HasSuffix(strings.ToLower(a), strings.ToLower(b))
	}),
	"lastIndexOf": indexOf(strings.LastIndex),
	"indexOf":     indexOf(strings.Index),
	"split":       typed2(split),
	"join":        {min: 2, max: 2, open: true, call: join},
	"replace":     textual(typed3(replace)),
	"substring":   {min: 2, max: 3, text: true, call: substring},
	"padLeft":     {min: 2, max: 3, text: true, call: padLeft},
}

// maxText is the maximum length of a text, so that no template can make it grow forever.
const maxText = 1 << 20

func onText(f func(string) string) function {
	return textual(typed1(func(x *scope, s string) (any, error) {
		x.d.spend(len(s) / 64)
		return f(s), nil
	}))
}

func onTexts(f func(a, b string) any) function {
	return typed2(func(x *scope, a, b string) (any, error) {
		x.d.spend(len(a) / 64)
		return f(a, b), nil
	})
}

// onAll makes a function of any number of texts.
func onAll(f func(texts ...string) string) function {
	return function{min: 1, max: -1, text: true, call: func(x *scope, args []any) (any, error) {
		texts := make([]string, len(args))
		for i := range args {
			var err error
			if texts[i], err = argument[string](args, i); err != nil {
				return nil, err
			}
			x.d.spend(len(texts[i]) / 64)
		}
		return f(texts...), nil
	}}
}

// lower does not change the braces around unknown parts.
func lower(x *scope, args []any) (any, error) {
	switch v := args[0].(type) {
	case *Unknown:
		return v, nil
	case Opaque:
		return Opaque(strings.ToLower(string(v))), nil
	}
	return onText(strings.ToLower).call(x, args)
}

// newGUID and utcNow are only allowed in default values of parameters, because each call differs.
func newGUID(x *scope, _ []any) (any, error) {
	if x.d.world == nil {
		return Opaque("{newGuid}"), nil
	}
	if err := x.inDefault(); err != nil {
		return nil, err
	}
	return x.d.world.NewGUID(), nil
}

func utcNow(x *scope, args []any) (any, error) {
	if x.d.world == nil {
		return Opaque("{utcNow}"), nil
	}
	if err := x.inDefault(); err != nil {
		return nil, err
	}
	return formatTime(x.d.world.Now(), args)
}

// inDefault refuses a function outside the default value of a parameter.
func (x *scope) inDefault() error {
	at := strings.TrimPrefix(x.place.address, x.d.address)
	if x.resource == nil && strings.HasPrefix(at, "parameters.") {
		return nil
	}
	return fmt.Errorf("it can only be used in the default value of a parameter")
}

// guidNamespace is that of the function guid (bicep-functions-string).
var guidNamespace = uuid.MustParse("11fb06fb-712d-4ddd-98c7-e71bbd588830")

// guid returns a version 5 UUID of its arguments, joined with hyphens.
func guid(texts ...string) string {
	return uuid.NewHash(sha1.New(), guidNamespace, []byte(strings.Join(texts, "-")), 5).String()
}

func fromBase64(f func(*scope, string) (any, error)) function {
	return typed1(func(x *scope, s string) (any, error) {
		raw, err := base64.StdEncoding.DecodeString(s)
		if err != nil || !utf8.Valid(raw) {
			return nil, fmt.Errorf("it is not the base64 form of a text")
		}
		x.d.spend(len(raw))
		return f(x, string(raw))
	})
}

// parseText parses JSON in a text. Resource Manager accepts single quotes instead of double quotes
// there.
func parseText(x *scope, s string) (any, error) {
	x.d.spend(len(s))
	v, err := Parse("", []byte(s))
	if err != nil && strings.Contains(s, "'") {
		if w, again := Parse("", []byte(strings.ReplaceAll(s, "'", `"`))); again == nil {
			return w, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the text is not JSON")
	}
	return v, nil
}

// written returns the text form of a value. Booleans are capitalised, as in .NET.
func (x *scope) written(v any) (text string, opaque bool) {
	switch v := v.(type) {
	case string:
		return v, false
	case Opaque:
		return string(v), true
	case nil:
		return "", false
	case bool:
		if v {
			return "True", false
		}
		return "False", false
	case int64:
		return strconv.FormatInt(v, 10), false
	case *Unknown:
		return "{" + strings.ReplaceAll(v.Why, "/", "-") + "}", true
	}
	text = x.json(v)
	return text, strings.Contains(text, "{") && x.d.unknownIn(v) != nil
}

// assembled returns text that is made of parts.
func (x *scope) assembled(text string, opaque bool) (any, error) {
	x.d.spend(len(text) / 64)
	if len(text) > maxText {
		return nil, fmt.Errorf("the text becomes longer than %d characters", maxText)
	}
	if opaque {
		return Opaque(text), nil
	}
	return text, nil
}

func toText(x *scope, args []any) (any, error) {
	if u := unknownOf(args); u != nil {
		return u, nil
	}
	return x.assembled(x.written(args[0]))
}

func indexOf(find func(s, part string) int) function {
	inText := onTexts(func(a, b string) any {
		i := find(strings.ToLower(a), strings.ToLower(b))
		if i > 0 {
			i = utf8.RuneCountInString(strings.ToLower(a)[:i])
		}
		return int64(i)
	})
	return typed2(func(x *scope, in, wanted any) (any, error) {
		if list, is := in.([]any); is {
			return indexIn(x, list, wanted, find("xx", "x") == 1)
		}
		return inText.call(x, []any{in, wanted})
	})
}

func split(x *scope, s string, by any) (any, error) {
	var separators []string
	switch by := by.(type) {
	case string:
		separators = []string{by}
	case []any:
		for _, item := range by {
			if item, is := item.(string); is {
				separators = append(separators, item)
				continue
			}
			return nil, fmt.Errorf("expected strings to split by")
		}
	}
	x.d.spend(len(s))
	parts := []any{}
	for start, i := 0, 0; ; {
		cut := 0
		for _, by := range separators {
			if by != "" && strings.HasPrefix(s[i:], by) {
				cut = len(by)
				break
			}
		}
		switch {
		case i == len(s):
			return append(parts, s[start:]), nil
		case cut > 0:
			parts = append(parts, s[start:i])
			i += cut
			start = i
		default:
			i++
		}
	}
}

func join(x *scope, args []any) (any, error) {
	if u := unknownOf(args); u != nil {
		return u, nil
	}
	list, is := args[0].([]any)
	by, isText := TextOf(args[1])
	if !is || !isText {
		return nil, fmt.Errorf("expected an array and a string")
	}
	_, opaque := args[1].(Opaque)
	var b strings.Builder
	for i, item := range list {
		if i > 0 {
			b.WriteString(by)
		}
		s, partly := x.written(item)
		opaque = opaque || partly
		b.WriteString(s)
		if b.Len() > maxText {
			break
		}
	}
	return x.assembled(b.String(), opaque)
}

func replace(x *scope, s, old, with string) (any, error) {
	if old == "" {
		return nil, fmt.Errorf("expected three strings, the second not empty")
	}
	if n := strings.Count(s, old); n > 0 && n*len(with) > maxText {
		return nil, fmt.Errorf("the text becomes longer than %d characters", maxText)
	}
	return x.assembled(strings.ReplaceAll(s, old, with), false)
}

func substring(x *scope, args []any) (any, error) {
	s, is := args[0].(string)
	start, isStart := args[1].(int64)
	if !is || !isStart {
		return nil, fmt.Errorf("expected a string and a number")
	}
	runes := []rune(s)
	x.d.spend(len(s) / 64)
	length := int64(len(runes)) - start
	if len(args) == 3 {
		if length, is = args[2].(int64); !is {
			return nil, fmt.Errorf("expected a number for the length")
		}
	}
	if start < 0 || length < 0 || start > int64(len(runes)) || length > int64(len(runes))-start {
		return nil, fmt.Errorf("the index and length parameters must refer to a location within "+
			"the string: %d and %d in %d", start, length, len(runes))
	}
	return string(runes[start : start+length]), nil
}

func padLeft(x *scope, args []any) (any, error) {
	s, opaque := x.written(args[0])
	total, is := args[1].(int64)
	if !is || total > maxText || opaque {
		return nil, fmt.Errorf("expected a length")
	}
	with := " "
	if len(args) == 3 {
		if with, is = args[2].(string); !is || utf8.RuneCountInString(with) != 1 {
			return nil, fmt.Errorf("expected one character to pad with")
		}
	}
	return x.assembled(strings.Repeat(with, max(0, int(total)-utf8.RuneCountInString(s)))+s, false)
}

// joinURI resolves a relative URI. It replaces everything after the last slash of the base.
func joinURI(_ *scope, base, relative string) (any, error) {
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
