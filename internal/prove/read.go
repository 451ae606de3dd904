package prove

import "fmt"

// Reads counts reads after a write that still showed the old state.
type Reads struct{ Gets, StaleGets, Lists, StaleLists int }

// Interface is what a trial observed of a network interface.
type Interface struct {
	Updating, Operation bool
	// Listed: a list right after its PUT shows it with its address. InSubnet: the subnet names it.
	// StillListed: a list after its DELETE still shows it.
	Listed, InSubnet, StillListed bool
	Deleted                       Answer
}

func readFacts() []Fact {
	reads := about(trialReads, func(o Observed) *Reads { return o.Reads })
	nic := about(trialInterface, func(o Observed) *Interface { return o.Interface })
	return []Fact{
		reads("fresh-get", func(r *Reads) (Verdict, string) {
			seen := fmt.Sprintf("%d of %d GETs showed an older state", r.StaleGets, r.Gets)
			return yes(r.StaleGets == 0, seen, seen)
		}),
		reads("fresh-list", func(r *Reads) (Verdict, string) {
			seen := fmt.Sprintf("%d of %d lists showed an older state", r.StaleLists, r.Lists)
			return yes(r.StaleLists == 0, seen, seen)
		}),
		nic("interface-list", func(n *Interface) (Verdict, string) {
			return yes(n.Listed, "it was listed with its address", "it was not listed")
		}),
		nic("interface-gone", func(n *Interface) (Verdict, string) {
			if !n.Deleted.OK() {
				return Untested, "the deletion was refused: " + n.Deleted.String()
			}
			return yes(!n.StillListed, "it was gone", "it was still listed")
		}),
		nic("interface-in-subnet", func(n *Interface) (Verdict, string) {
			return yes(n.InSubnet, "the subnet named it", "the subnet did not name it")
		}),
		nic("interface-at-once", func(n *Interface) (Verdict, string) {
			return yes(!n.Updating && !n.Operation,
				"it was Succeeded at once", "it began an operation")
		}),
	}
}
