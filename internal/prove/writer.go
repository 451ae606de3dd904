package prove

import "fmt"

// Race is two PUTs at the same moment.
type Race struct {
	First, Second Answer
	// FirstSeen and SecondSeen are true if a GET afterwards shows the respective change.
	FirstSeen, SecondSeen bool
}

// Overlap is an accepted PUT, and a second one while the operation of the first was running.
type Overlap struct {
	// Running is true if the first one began an operation.
	Running       bool
	First, Second Answer
	// End is how the first one's operation ended: its status, its error, and whether that error
	// asks to try again.
	End      string
	EndCode  string
	EndAgain bool
	// SecondSeen is true if a GET afterwards shows the second one's change.
	SecondSeen bool
}

func writerFacts() []Fact {
	return []Fact{
		{
			Name: "same-table", Family: familyWriters, Trial: trialRace,
			Question: "Of two PUTs of one table at once with the same ETag, is only one accepted?",
			Expected: "yes: no writer undoes another writer's change", Source: sourceUnproven,
			Judged: "two PUTs at once with the same If-Match, then GET",
			Follows: "Two writers of one table can undo each other's routes. Give each target " +
				"one writer, or set policy: Observe for it.",
			judge: func(o Observed) (Verdict, string) {
				r := o.SameTable
				switch {
				case r == nil:
					return notMade()
				case r.First.OK() && r.Second.OK():
					return Differs, "both were accepted, and one of them is lost"
				case !r.First.OK() && !r.Second.OK():
					return Untested, fmt.Sprintf("both were refused: %s; %s",
						r.First.brief(), r.Second.brief())
				case r.First.OK() != r.FirstSeen || r.Second.OK() != r.SecondSeen:
					return Differs, "the accepted PUT did not take effect"
				}
				refused := r.First
				if r.First.OK() {
					refused = r.Second
				}
				return Confirmed, "the other was refused: " + refused.brief()
			},
		},
		{
			Name: "sibling-subnets", Family: familyWriters, Trial: trialRace,
			Question: "Do two PUTs of different subnets of a network at once leave each other " +
				"alone?",
			Expected: "yes: one may be refused for now, and an accepted one stays",
			Source:   sourceUnproven,
			Judged:   "two PUTs at once on two subnets, then GET of both",
			Follows: "A redeployment of one subnet can undo the repair of another one at the " +
				"same moment. The keeper notices when it reads back, and repairs again.",
			judge: func(o Observed) (Verdict, string) {
				r := o.Siblings
				switch {
				case r == nil:
					return notMade()
				case r.First.OK() && !r.FirstSeen || r.Second.OK() && !r.SecondSeen:
					return Differs, "one was accepted, and is lost"
				case !r.First.OK() && !r.First.Again:
					return Differs, "one was refused for good: " + r.First.String()
				case !r.Second.OK() && !r.Second.Again:
					return Differs, "one was refused for good: " + r.Second.String()
				case r.First.OK() && r.Second.OK():
					return Confirmed, "both were accepted, and took effect"
				case !r.First.OK() && !r.Second.OK():
					return Untested, "both were refused for now: " + r.First.brief()
				case r.First.OK():
					return Confirmed, "one was refused for now: " + r.Second.brief()
				}
				return Confirmed, "one was refused for now: " + r.First.brief()
			},
		},
		overlapFact("table-overlap", "route table", trialTableOverlap,
			func(o Observed) *Overlap { return o.TableOverlap }),
		overlapFact("subnet-overlap", "subnet", trialSubnetOverlap,
			func(o Observed) *Overlap { return o.SubnetOverlap }),
	}
}

func overlapFact(name, what, trial string, of func(Observed) *Overlap) Fact {
	return Fact{
		Name: name, Family: familyWriters, Trial: trial,
		Question: "What does a PUT of a " + what + " do while the operation of another PUT runs?",
		Expected: "it is refused for now, or the other one ends as superseded, both with codes " +
			"that routekeeper retries",
		Source: "azure-sdk-for-go issues; " + sourceRecorded,
		Judged: "two PUTs without waiting, the end of the first one's operation, then GET",
		Follows: "routekeeper treats the code as a lasting refusal, and repairs at a later " +
			"check: send the recording to its maintainers.",
		judge: func(o Observed) (Verdict, string) {
			v := of(o)
			switch {
			case v == nil:
				return notMade()
			case !v.First.OK():
				return Untested, "the first was refused: " + v.First.String()
			case !v.Running:
				return Untested, "the first ended at once, so nothing was superseded"
			case !v.Second.OK() && !v.Second.Again:
				return Differs, "the second was refused for good: " + v.Second.String()
			case v.End != "Succeeded" && !v.EndAgain:
				return Differs, "the first ended as " + v.end() +
					", which is not a known code of a superseded operation"
			case !v.Second.OK():
				return Confirmed, "the second was refused for now: " + v.Second.brief()
			case !v.SecondSeen:
				return Differs, "the second was accepted, and is lost"
			}
			return Confirmed, "the second was accepted, and the first ended as " + v.end()
		},
	}
}

func (v Overlap) end() string {
	if v.EndCode == "" {
		return v.End
	}
	return v.End + " (" + v.EndCode + ")"
}
