package prove

import (
	"fmt"
	"strings"
	"time"
)

// Unknown is what happened to fields that no api-version has.
type Unknown struct {
	Subnet, Route         Answer
	SubnetKept, RouteKept bool
}

// Network is the effect of PUTs of a whole network on its subnets.
type Network struct {
	// Left is the number of subnets after a PUT without subnets, Had the number before.
	Had, Left int
	// Stripped is true if a subnet lost the table that a PUT did not name.
	Stripped bool
	// Listed is the answer to the PUT that lists subnets.
	Listed Answer
}

// Limit is what a trial observed of large tables.
type Limit struct {
	Full     Answer // a table of 400 routes
	Settled  bool
	Took     time.Duration
	Over     Answer // a table of 401 routes
	OverSeen bool   // the table had that many routes afterwards
}

// FullTable is how many routes a table holds unless Azure Virtual Network Manager manages it.
const FullTable = 400

// patience is how long a write of routekeeper may take, with its operation.
const patience = 2 * time.Minute

func writeFacts() []Fact {
	subnet := about(trialSubnet, func(o Observed) *Write { return o.Subnet })
	table := about(trialTable, func(o Observed) *Write { return o.Table })
	strip := about(trialStrip, func(o Observed) *Strip { return o.Strip })
	unknown := about(trialUnknown, func(o Observed) *Unknown { return o.Unknown })
	network := about(trialNetwork, func(o Observed) *Network { return o.Network })
	limit := about(trialLimit, func(o Observed) *Limit { return o.Limit })
	inUse := about(trialInUse, func(o Observed) *Answer { return o.InUse })
	return []Fact{
		strip("strip", func(s *Strip) (Verdict, string) {
			return yes(s.Gone, "the subnet had no table", "the subnet kept its table")
		}),
		strip("repair", func(s *Strip) (Verdict, string) {
			switch {
			case !s.Gone:
				return Untested, "the subnet kept its table"
			case !s.Back:
				return Differs, "the table is not back"
			}
			return yes(len(s.Lost) == 0, "every field is as before", "they differ: "+
				strings.Join(s.Lost, ", "))
		}),
		unknown("subnet-unknown-field", func(u *Unknown) (Verdict, string) {
			return unknownVerdict(u.Subnet, u.SubnetKept)
		}),
		unknown("route-unknown-field", func(u *Unknown) (Verdict, string) {
			return unknownVerdict(u.Route, u.RouteKept)
		}),
		network("network-put-keeps-subnets", func(n *Network) (Verdict, string) {
			seen := fmt.Sprintf("%d of %d subnets are left", n.Left, n.Had)
			return yes(n.Left == n.Had, seen, seen)
		}),
		network("network-put-strips", func(n *Network) (Verdict, string) {
			if !n.Listed.OK() {
				return Untested, "it was refused: " + n.Listed.String()
			}
			return yes(n.Stripped, "the subnet had no table", "the subnet kept its table")
		}),
		limit("full-table", func(l *Limit) (Verdict, string) {
			switch {
			case !l.Full.OK():
				return Differs, "it was refused: " + l.Full.String()
			case !l.Settled:
				return Differs, "it was not settled after " + seconds(l.Took)
			}
			return yes(l.Took <= patience, "settled after "+seconds(l.Took),
				"settled only after "+seconds(l.Took))
		}),
		limit("route-limit", func(l *Limit) (Verdict, string) {
			switch {
			case !l.Full.OK():
				return Untested, "400 routes were refused already"
			case l.Over.OK():
				return yes(!l.OverSeen, "it was accepted, and 400 routes are there",
					"it was accepted")
			case l.Over.Again:
				return Untested, "it was refused for another reason: " + l.Over.String()
			}
			return Confirmed, l.Over.String()
		}),
		inUse("table-in-use", func(a *Answer) (Verdict, string) {
			return yes(!a.OK(), a.brief(), "it was accepted")
		}),
		subnet("subnet-operation", endVerdict),
		table("table-operation", endVerdict),
	}
}

func unknownVerdict(answer Answer, kept bool) (Verdict, string) {
	switch {
	case answer.Again:
		return Untested, "it was refused for another reason: " + answer.String()
	case !answer.OK():
		return Confirmed, "refused: " + answer.String()
	}
	return yes(kept, "it was kept", "it was accepted, and dropped")
}

func endVerdict(w *Write) (Verdict, string) {
	switch {
	case !w.First.OK():
		return Untested, "the PUT was refused: " + w.First.String()
	case !w.Updating && !w.Operation:
		return Untested, "the PUT ended at once"
	case !w.Operation:
		return Differs, "the answer says Updating, but names no operation"
	}
	return yes(w.End == "Succeeded", "Succeeded after "+w.Took, "its operation ended as "+w.End)
}
