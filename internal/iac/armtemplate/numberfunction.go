package armtemplate

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// Functions on numbers (template-functions-numeric).
var numberFunctions = map[string]function{
	"int":   typed1(toInt),
	"float": typed1(toFloat),
	"add":   arithmetic(func(a, b int64) (int64, bool) { return a + b, (a+b > a) == (b > 0) }),
	"sub":   arithmetic(func(a, b int64) (int64, bool) { return a - b, (a-b < a) == (b > 0) }),
	"mul":   arithmetic(multiply),
	"div":   arithmetic(func(a, b int64) (int64, bool) { return divide(a, b, false) }),
	"mod":   arithmetic(func(a, b int64) (int64, bool) { return divide(a, b, true) }),
	"min":   {min: 1, max: -1, call: extreme(func(a, b int64) bool { return a < b })},
	"max":   {min: 1, max: -1, call: extreme(func(a, b int64) bool { return a > b })},
}

func multiply(a, b int64) (int64, bool) {
	high, _ := bits.Mul64(uint64(max(a, -a)), uint64(max(b, -b)))
	return a * b, high == 0 && (a == 0 || (a*b)/a == b)
}

func divide(a, b int64, rest bool) (int64, bool) {
	switch {
	case b == 0 || a == math.MinInt64 && b == -1:
		return 0, false
	case rest:
		return a % b, true
	}
	return a / b, true
}

func arithmetic(f func(a, b int64) (int64, bool)) function {
	return typed2(func(_ *scope, a, b int64) (any, error) {
		n, ok := f(a, b)
		if !ok {
			return nil, fmt.Errorf("%d and %d have no result", a, b)
		}
		return n, nil
	})
}

func extreme(better func(a, b int64) bool) func(*scope, []any) (any, error) {
	return func(_ *scope, args []any) (any, error) {
		if list, is := args[0].([]any); is && len(args) == 1 {
			args = list
		}
		if u := unknownOf(args); u != nil {
			return u, nil
		}
		if len(args) == 0 {
			return nil, fmt.Errorf("there is no number")
		}
		var best int64
		for i := range args {
			n, err := argument[int64](args, i)
			if err != nil {
				return nil, err
			}
			if i == 0 || better(n, best) {
				best = n
			}
		}
		return best, nil
	}
}

func toInt(_ *scope, of any) (any, error) {
	switch v := of.(type) {
	case int64:
		return v, nil
	case string:
		if n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err == nil {
			return n, nil
		}
	}
	return nil, fmt.Errorf("it is not an integer")
}

func toFloat(_ *scope, of any) (any, error) {
	switch v := of.(type) {
	case int64:
		return float64(v), nil
	case float64:
		return v, nil
	case string:
		if f, err := strconv.ParseFloat(v, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
			return f, nil
		}
	}
	return nil, fmt.Errorf("it is not a number")
}
