package egress

import "testing"

// TestCovers: a wildcard of a rule covers what is below it, and nothing else.
func TestCovers(t *testing.T) {
	for _, c := range []struct {
		rule, required string
		want           bool
	}{
		{"mcr.microsoft.com", "MCR.microsoft.com", true}, {"*", "a.b", true},
		{"*.microsoft.com", "mcr.microsoft.com", true}, {"*.microsoft.com", "*.mp.microsoft.com",
			true}, {"*.mp.microsoft.com", "*.mp.microsoft.com", true},
		{"*.data.mcr.microsoft.com", "mcr.microsoft.com", false},
		{"a.mp.microsoft.com", "*.mp.microsoft.com", false},
		{"*.microsoft.com", "notmicrosoft.com", false},
	} {
		if covers(c.rule, c.required) != c.want {
			t.Errorf("%s covers %s: %t", c.rule, c.required, !c.want)
		}
	}
}
