package plan

import (
	"fmt"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
)

// Harm returns a clause that says what is broken until the changes are made, such as: node subnet
// shop-vnet/nodes has lost its route table. All changes must be of one resource.
func Harm(changes []Change) string {
	id := changes[0].Resource
	if changes[0].Verb == Associate {
		if strings.Contains(changes[0].Why, "subnet ") {
			return strings.Replace(changes[0].Why, "subnet ", "subnet "+id.Short()+" ", 1)
		}
		property, value := changes[0].New.Associated()
		return "subnet " + id.Short() + " does not have the " + property.Name() + " " +
			value.Short()
	}
	var parts []string
	say := func(verb Verb, egress bool, text, what string) {
		n := 0
		for _, c := range changes {
			if c.Verb == verb && c.Egress == egress {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", text, finding.CountOf(n, what, what+"s")))
		}
	}
	say(Create, true, "lacks", "egress route")
	say(Update, true, "has the wrong next hop in", "egress route")
	say(Create, false, "lacks", "pod route")
	say(Update, false, "has the wrong next hop in", "pod route")
	say(Delete, false, "holds", "stale pod route")
	return "route table " + id.Short() + " " + strings.Join(parts, " and ")
}
