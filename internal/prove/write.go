package prove

import (
	"fmt"
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
	return []Fact{
		{
			Name: "strip", Trial: trialStrip,
			judge: func(o Observed) (Verdict, string) {
				if o.Strip == nil {
					return notMade()
				}
				return yes(o.Strip.Gone, "the subnet had no table", "the subnet kept its table")
			},
		},
		{
			Name: "repair", Trial: trialStrip,
			judge: func(o Observed) (Verdict, string) {
				s := o.Strip
				switch {
				case s == nil:
					return notMade()
				case !s.Gone:
					return Untested, "the subnet kept its table"
				case !s.Back:
					return Differs, "the table is not back"
				}
				return yes(len(s.Lost) == 0, "every field is as before", "they differ: "+
					list(s.Lost))
			},
		},
		unknownFact("subnet-unknown-field", func(u Unknown) (Answer, bool) {
			return u.Subnet, u.SubnetKept
		}),
		unknownFact("route-unknown-field", func(u Unknown) (Answer, bool) {
			return u.Route, u.RouteKept
		}),
		{
			Name: "network-put-keeps-subnets", Trial: trialNetwork,
			judge: func(o Observed) (Verdict, string) {
				if o.Network == nil {
					return notMade()
				}
				seen := fmt.Sprintf("%d of %d subnets are left", o.Network.Left, o.Network.Had)
				return yes(o.Network.Left == o.Network.Had, seen, seen)
			},
		},
		{
			Name: "network-put-strips", Trial: trialNetwork,
			judge: func(o Observed) (Verdict, string) {
				switch {
				case o.Network == nil:
					return notMade()
				case !o.Network.Listed.OK():
					return Untested, "it was refused: " + o.Network.Listed.String()
				}
				return yes(o.Network.Stripped, "the subnet had no table",
					"the subnet kept its table")
			},
		},
		{
			Name: "full-table", Trial: trialLimit,
			judge: func(o Observed) (Verdict, string) {
				l := o.Limit
				switch {
				case l == nil:
					return notMade()
				case !l.Full.OK():
					return Differs, "it was refused: " + l.Full.String()
				case !l.Settled:
					return Differs, "it was not settled after " + seconds(l.Took)
				}
				return yes(l.Took <= patience, "settled after "+seconds(l.Took),
					"settled only after "+seconds(l.Took))
			},
		},
		{
			Name: "route-limit", Trial: trialLimit,
			judge: func(o Observed) (Verdict, string) {
				switch {
				case o.Limit == nil:
					return notMade()
				case !o.Limit.Full.OK():
					return Untested, "400 routes were refused already"
				case o.Limit.Over.OK():
					return yes(!o.Limit.OverSeen, "it was accepted, and 400 routes are there",
						"it was accepted")
				case o.Limit.Over.Again:
					return Untested, "it was refused for another reason: " + o.Limit.Over.String()
				}
				return Confirmed, o.Limit.Over.String()
			},
		},
		{
			Name: "table-in-use", Trial: trialInUse,
			judge: func(o Observed) (Verdict, string) {
				if o.InUse == nil {
					return notMade()
				}
				return yes(!o.InUse.OK(), o.InUse.brief(), "it was accepted")
			},
		},
		endFact("subnet-operation", trialSubnet, subnetWrite),
		endFact("table-operation", trialTable, tableWrite),
	}
}

func unknownFact(name string, of func(Unknown) (Answer, bool)) Fact {
	return Fact{
		Name: name, Trial: trialUnknown,
		judge: func(o Observed) (Verdict, string) {
			if o.Unknown == nil {
				return notMade()
			}
			answer, kept := of(*o.Unknown)
			switch {
			case answer.Again:
				return Untested, "it was refused for another reason: " + answer.String()
			case !answer.OK():
				return Confirmed, "refused: " + answer.String()
			}
			return yes(kept, "it was kept", "it was accepted, and dropped")
		},
	}
}

func endFact(name, trial string, of func(Observed) *Write) Fact {
	return Fact{
		Name: name, Trial: trial,
		judge: func(o Observed) (Verdict, string) {
			w := of(o)
			switch {
			case w == nil:
				return notMade()
			case !w.First.OK():
				return Untested, "the PUT was refused: " + w.First.String()
			case !w.Updating && !w.Operation:
				return Untested, "the PUT ended at once"
			case !w.Operation:
				return Differs, "the answer says Updating, but names no operation"
			}
			return yes(w.End == "Succeeded", "Succeeded after "+w.Took, "its operation ended as "+
				w.End)
		},
	}
}
