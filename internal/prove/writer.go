package prove

import "fmt"

// Race is two PUTs at the same moment.
type Race struct {
	First, Second Answer
	// FirstSeen and SecondSeen report that a GET afterwards shows what each of them wrote.
	FirstSeen, SecondSeen bool
}

// Overlap is a PUT that was accepted, and a second one while the operation of the first was
// running.
type Overlap struct {
	// Running reports that the first began an operation.
	Running       bool
	First, Second Answer
	// End is how the first one's operation ended: its status, its error, and whether that error
	// says to try again.
	End      string
	EndCode  string
	EndAgain bool
	// SecondSeen reports that a GET afterwards shows what the second one wrote.
	SecondSeen bool
}

func writerFacts() []Fact {
	return []Fact{
		{
			Name: "same-table", Family: familyWriters, Trial: trialRace,
			Question: "Of two PUTs of one table at once with the same ETag, is only one accepted?",
			Expected: "yes: no writer undoes what another has just written", Source: sourceUnproven,
			Judged: "two PUTs at once with the same If-Match, then GET",
			Follows: "Two writers of one table can undo each other's routes. Give each target " +
				"one writer, " +
				"or set policy: Observe for it.",
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
					return Differs, "the one that was accepted is not what is there"
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
			Expected: "yes: one may be refused for now, and what is accepted stays",
			Source:   sourceUnproven,
			Judged:   "two PUTs at once on two subnets, then GET of both",
			Follows: "A redeployment of one subnet can undo the repair of another at the same " +
				"moment. " +
				"The read-back notices, and the repair is made again.",
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
					return Confirmed, "both were accepted, and are there"
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
		Question: "What does a PUT of a " + what + " do while the operation of another one runs?",
		Expected: "it is refused for now, or the other ends as superseded: both with codes that " +
			"routekeeper tries again on",
		Source: "azure-sdk-for-go issues; " + sourceRecorded,
		Judged: "two PUTs without waiting, the end of the first one's operation, then GET",
		Follows: "routekeeper takes the code for a lasting refusal, and repairs at a later " +
			"check: send the " +
			"recording to its maintainers.",
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
					", which is not known as superseded"
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
