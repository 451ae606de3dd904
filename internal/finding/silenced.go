package finding

import "strings"

// Quiet returns the resources, in lower case, whose errors and warnings in findings a person has
// all silenced.
func Quiet(findings []Finding) map[string]bool {
	quiet := map[string]bool{}
	for _, f := range findings {
		if f.Silenced != nil && f.Resource != "" {
			quiet[strings.ToLower(f.Resource)] = true
		}
	}
	for _, f := range findings {
		if f.Silenced == nil && f.Severity > Info {
			delete(quiet, strings.ToLower(f.Resource))
		}
	}
	return quiet
}

// Loud returns the findings that no person silenced.
func Loud(findings []Finding) (loud []Finding) {
	for _, f := range findings {
		if f.Silenced == nil {
			loud = append(loud, f)
		}
	}
	return loud
}
