package finding

import "slices"

// deciding has the codes of findings that wait for a person's decision.
var deciding = []Code{AssociationOther, DeletesWithheld, UpdatesWithheld, PrefixTaken, TableUnknown,
	RoutesOrphaned, ClustersOverlap, ChangesLimited, ChangesWithheld, PauseForgotten}

// Decides reports whether a finding with the code waits for the decision of a person.
func Decides(code Code) bool { return slices.Contains(deciding, code) }

// Silence is how a person silenced a finding: it stays visible, but nothing calls for attention.
type Silence struct {
	Until  string `json:"until"` // RFC 3339
	Reason string `json:"reason"`
	By     string `json:"by"`
}
