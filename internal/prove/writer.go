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
	sameTable := about(trialRace, func(o Observed) *Race { return o.SameTable })
	siblings := about(trialRace, func(o Observed) *Race { return o.Siblings })
	tableOverlap := about(trialTableOverlap, func(o Observed) *Overlap { return o.TableOverlap })
	subnetOverlap := about(trialSubnetOverlap, func(o Observed) *Overlap { return o.SubnetOverlap })
	return []Fact{
		sameTable("same-table", func(r *Race) (Verdict, string) {
			switch {
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
		}),
		siblings("sibling-subnets", func(r *Race) (Verdict, string) {
			switch {
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
		}),
		tableOverlap("table-overlap", overlapVerdict),
		subnetOverlap("subnet-overlap", overlapVerdict),
	}
}

func overlapVerdict(v *Overlap) (Verdict, string) {
	switch {
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
}

func (v Overlap) end() string {
	if v.EndCode == "" {
		return v.End
	}
	return v.End + " (" + v.EndCode + ")"
}
