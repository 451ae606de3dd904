package plan

import (
	"fmt"
	"strings"
)

// Harm is a clause that says what is wrong until the changes are made: node subnet shop-vnet/nodes
// has lost its route table. All changes are of one resource.
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
	counts := map[Verb]int{}
	for _, c := range changes {
		counts[c.Verb]++
	}
	var parts []string
	say := func(verb Verb, text, one, many string) {
		if n := counts[verb]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", text, number(n, one, many)))
		}
	}
	say(Create, "lacks", "pod route", "pod routes")
	say(Update, "has the wrong next hop in", "pod route", "pod routes")
	say(Delete, "holds", "stale pod route", "stale pod routes")
	return "route table " + id.Short() + " " + strings.Join(parts, " and ")
}
