package armtemplate

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// format does .NET's composite formatting: {index[,alignment][:format]}, with {{ and }} for braces
// (standard-numeric-format-strings).
func format(x *scope, args []any) (any, error) {
	if u := unknownOf(args[:1]); u != nil {
		return u, nil
	}
	pattern, is := args[0].(string)
	if !is {
		if _, opaque := args[0].(Opaque); opaque {
			return x.opaque("format", args), nil
		}
		return nil, fmt.Errorf("the pattern is %s", kindOf(args[0]))
	}
	var b strings.Builder
	opaque := false
	for i := 0; i < len(pattern); {
		c := pattern[i]
		if (c == '{' || c == '}') && i+1 < len(pattern) && pattern[i+1] == c {
			b.WriteByte(c)
			i += 2
			continue
		}
		if c == '}' {
			return nil, fmt.Errorf("a } without { in %s", shorten(pattern))
		}
		if c != '{' {
			b.WriteByte(c)
			i++
			continue
		}
		end := strings.IndexByte(pattern[i:], '}')
		if end < 0 {
			return nil, fmt.Errorf("a { without } in %s", shorten(pattern))
		}
		text, partly, err := x.formatItem(pattern[i+1:i+end], args[1:])
		if err != nil {
			return nil, err
		}
		opaque = opaque || partly
		b.WriteString(text)
		if i += end + 1; b.Len() > maxText {
			break
		}
	}
	return x.assembled(b.String(), opaque)
}

func (x *scope) formatItem(item string, args []any) (text string, opaque bool, err error) {
	item, style, styled := strings.Cut(item, ":")
	item, align, _ := strings.Cut(item, ",")
	n, err := strconv.Atoi(strings.TrimSpace(item))
	if err != nil || n < 0 || n >= len(args) {
		return "", false, fmt.Errorf("{%s} names none of the %d values", item, len(args))
	}
	number, isNumber := args[n].(int64)
	if styled && isNumber {
		if text, err = formatNumber(number, style); err != nil {
			return "", false, err
		}
	} else {
		text, opaque = x.written(args[n])
	}
	if align = strings.TrimSpace(align); align != "" {
		width, err := strconv.Atoi(align)
		if err != nil || width > maxText || width < -maxText {
			return "", false, fmt.Errorf("%q is not a width", align)
		}
		if pad := max(width, -width) - utf8.RuneCountInString(text); pad > 0 && width > 0 {
			text = strings.Repeat(" ", pad) + text
		} else if pad > 0 {
			text += strings.Repeat(" ", pad)
		}
	}
	return text, opaque, nil
}

// formatNumber formats a number in the styles that templates use for integers: D, X, N, F and
// custom zeros.
func formatNumber(n int64, style string) (string, error) {
	if style == "" {
		return strconv.FormatInt(n, 10), nil
	}
	if strings.Trim(style, "0") == "" {
		return padNumber(n, len(style)), nil
	}
	precision := -1
	if style[1:] != "" {
		p, err := strconv.Atoi(style[1:])
		if err != nil || p < 0 || p > 99 {
			return "", fmt.Errorf("the number format %q is not supported", style)
		}
		precision = p
	}
	fraction := func() string {
		if precision == 0 {
			return ""
		}
		if precision < 0 {
			return ".00"
		}
		return "." + strings.Repeat("0", precision)
	}
	switch style[0] {
	case 'D', 'd':
		return padNumber(n, precision), nil
	case 'X':
		return fmt.Sprintf("%0*X", max(precision, 1), uint64(n)), nil
	case 'x':
		return fmt.Sprintf("%0*x", max(precision, 1), uint64(n)), nil
	case 'F', 'f':
		return strconv.FormatInt(n, 10) + fraction(), nil
	case 'N', 'n':
		digits := strings.TrimPrefix(strconv.FormatInt(n, 10), "-")
		for i := len(digits) - 3; i > 0; i -= 3 {
			digits = digits[:i] + "," + digits[i:]
		}
		if n < 0 {
			digits = "-" + digits
		}
		return digits + fraction(), nil
	}
	return "", fmt.Errorf("the number format %q is not supported", style)
}

func padNumber(n int64, width int) string {
	digits := strings.TrimPrefix(strconv.FormatInt(n, 10), "-")
	digits = strings.Repeat("0", max(0, width-len(digits))) + digits
	if n < 0 {
		return "-" + digits
	}
	return digits
}
