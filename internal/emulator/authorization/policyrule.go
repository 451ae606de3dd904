package authorization

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/policy"
)

// How it works. Package policy evaluates rules. checkPolicyRule refuses a definition with anything
// that it does not evaluate, so that no rule is ignored silently.

// checkPolicyRule refuses a rule that this emulator cannot evaluate, or that uses an alias that
// does not exist. Rules whose effect is not enforced are not checked.
func checkPolicyRule(name string, properties kernel.Object) *kernel.Failure {
	effect := kernel.Text(properties, "policyRule", "then", "effect")
	if !strings.HasPrefix(effect, "[") && !strings.EqualFold(effect, "deny") &&
		!strings.EqualFold(effect, "denyAction") {
		return nil
	}
	return checkCondition(name, kernel.ObjectAt(properties, "policyRule", "if"))
}

func checkCondition(name string, c kernel.Object) *kernel.Failure {
	unknown := func(format string, args ...any) *kernel.Failure {
		return kernel.Fail(http.StatusNotImplemented, "PolicyRuleNotSupported",
			"The emulator does not support this in the policy definition '%s': %s.", name,
			fmt.Sprintf(format, args...))
	}
	compared := 0
	for _, key := range slices.Sorted(maps.Keys(c)) {
		switch key {
		case "allOf", "anyOf":
			for _, o := range kernel.ListAt(c, key) {
				if f := checkCondition(name, o); f != nil {
					return f
				}
			}
		case "not":
			if f := checkCondition(name, kernel.ObjectAt(c, key)); f != nil {
				return f
			}
		case "field":
			if f := checkAlias(name, kernel.Text(c, key)); f != nil {
				return f
			}
		case "count":
			count := kernel.ObjectAt(c, key)
			if count["field"] == nil && count["name"] == nil {
				return unknown("a count of a value without a name")
			}
			if f := checkAlias(name, kernel.Text(count, "field")); f != nil {
				return f
			}
			if where := kernel.ObjectAt(count, "where"); where != nil {
				if f := checkCondition(name, where); f != nil {
					return f
				}
			}
		default:
			if key != "value" && !policy.Compares(key) {
				return unknown("the operator '%s'", key)
			}
			s, _ := c[key].(string)
			if strings.HasPrefix(s, "[") && !policy.Evaluates(s) {
				return unknown("the expression '%s'", s)
			}
			if key != "value" {
				compared++
			}
		}
	}
	leaf := c["field"] != nil || c["value"] != nil || c["count"] != nil
	if leaf && compared != 1 || !leaf && (len(c) != 1 || compared != 0) {
		return unknown("the condition %s", kernel.Encode(c))
	}
	return nil
}
