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
	"int":   {min: 1, max: 1, call: toInt},
	"float": {min: 1, max: 1, call: toFloat},
	"add": {min: 2, max: 2, call: arithmetic(func(a, b int64) (int64, bool) {
		return a + b, (a+b > a) == (b > 0)
	})},
	"sub": {min: 2, max: 2, call: arithmetic(func(a, b int64) (int64, bool) {
		return a - b, (a-b < a) == (b > 0)
	})},
	"mul": {min: 2, max: 2, call: arithmetic(multiply)},
	"div": {min: 2, max: 2, call: arithmetic(func(a, b int64) (int64, bool) {
		return divide(a, b, false)
	})},
	"mod": {min: 2, max: 2, call: arithmetic(func(a, b int64) (int64, bool) {
		return divide(a, b, true)
	})},
	"min": {min: 1, max: -1, call: extreme(func(a, b int64) bool { return a < b })},
	"max": {min: 1, max: -1, call: extreme(func(a, b int64) bool { return a > b })},
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

func arithmetic(f func(a, b int64) (int64, bool)) func(*scope, []any) (any, error) {
	return func(_ *scope, args []any) (any, error) {
		a, isA := args[0].(int64)
		b, isB := args[1].(int64)
		if !isA || !isB {
			return nil, fmt.Errorf("expected two integers, not %s and %s", kindOf(args[0]),
				kindOf(args[1]))
		}
		n, ok := f(a, b)
		if !ok {
			return nil, fmt.Errorf("%d and %d have no result", a, b)
		}
		return n, nil
	}
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
		for i, arg := range args {
			n, is := arg.(int64)
			if !is {
				return nil, fmt.Errorf("expected integers, not %s", kindOf(arg))
			}
			if i == 0 || better(n, best) {
				best = n
			}
		}
		return best, nil
	}
}

func toInt(_ *scope, args []any) (any, error) {
	switch v := args[0].(type) {
	case int64:
		return v, nil
	case string:
		if n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err == nil {
			return n, nil
		}
	}
	return nil, fmt.Errorf("it is not an integer")
}

func toFloat(_ *scope, args []any) (any, error) {
	switch v := args[0].(type) {
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
