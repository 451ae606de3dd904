package verdict_test

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/trace"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// agree checks that all surfaces agree with the trace, and does so within some checks: a node whose
// route has just gone may be leaving, so the keeper checks it twice.
func (f *fleet) agree(after string) {
	f.Helper()
	truth := trace.New(f.survey(), trace.Options{})
	var wrong []string
	for began := time.Now(); time.Since(began) < 20*time.Second; {
		if wrong = f.disagree(truth); len(wrong) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond) // a second read comes seconds after the first
	}
	f.Fatalf("%s:\n%s", after, strings.Join(wrong, "\n"))
}

// agreeAll checks that doctor, which reads everything, agrees with the trace as well, and that
// messages name the broken clusters. Alone says that each cluster has one cause.
func (f *fleet) agreeAll(after string, alone bool) {
	f.Helper()
	s := f.survey()
	told := f.doctor(s)
	for _, text := range f.against(trace.New(s, trace.Options{}), told) {
		f.Errorf("%s: by doctor, %s", after, text)
	}
	r := f.check()
	for began := time.Now(); ; r = f.check() { // a lost route is reported at the second check
		var wrong []string
		for i, v := range r.Verdicts {
			// a diagnosis does not know that a cluster that migrates still needs its table
			if d := told[i]; essence(v, alone) != essence(d, alone) &&
				v.State != verdict.Unknown && !v.Seen().Picture.Migrating {
				wrong = append(wrong, fmt.Sprintf("%s: by doctor, %s is %s (%s), and by the "+
					"keeper %s (%s)", after, v.Cluster, essence(d, alone), d.Sentence,
					essence(v, alone), v.Sentence))
			}
		}
		if len(wrong) == 0 {
			break
		}
		if time.Since(began) > 5*time.Second {
			f.Error(strings.Join(wrong, "\n"))
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	said := f.messages(r)
	for _, v := range r.Verdicts {
		if state := said[v.Cluster]; v.State.Harmed() != (state != "") || v.State.Harmed() &&
			state != v.State {
			f.Errorf("%s: %s is %s, and the message says %q", after, v.Cluster, v.State, state)
		}
	}
}

// essence is what all must say of a harmed cluster: its state, the code of its cause, and how many
// nodes are cut off. Of several causes each may name another one.
func essence(v verdict.Verdict, alone bool) string {
	if !v.State.Harmed() {
		return "not harmed"
	}
	code := finding.Code("no finding")
	if v.Cause != nil && alone {
		code = v.Cause.Code
	}
	return fmt.Sprintf("%s by %s, %d nodes cut off", v.State, cmp.Or(alike[code], code), v.CutOff)
}

// alike are codes for the same thing, seen with less. A diagnosis does not know what a target had
// before, and compares each route with its node; a keeper has no finding for routes of other people
// in the cluster's table, and its sentence says what they do.
var alike = map[finding.Code]finding.Code{
	finding.PrefixTaken:  finding.TargetDrift,
	finding.WrongHop:     finding.NodeWithoutRoute,
	finding.RouteShadows: "no finding",
	// also for next hops: the keeper's sentence names them
	finding.NextHopUnreachable: "no finding",
	finding.EgressHopGone:      "no finding",
}

func (f *fleet) disagree(truth *trace.Tracer) (wrong []string) {
	f.Helper()
	r := f.check()
	if len(r.Verdicts) != len(f.configs) {
		f.Fatalf("%d verdicts", len(r.Verdicts))
	}
	for surface, states := range f.surfaces(r) {
		for _, v := range r.Verdicts {
			if states[v.Cluster] != v.State {
				f.Errorf("%s is %s, and %s says %q", v.Cluster, v.State, surface, states[v.Cluster])
			}
		}
	}
	return f.against(truth, r.Verdicts)
}

// against compares verdicts, in the order of the configs, with a trace of all pairs.
func (f *fleet) against(truth *trace.Tracer, verdicts []verdict.Verdict) (wrong []string) {
	for i, v := range verdicts {
		m := truth.To(arm.ID(f.configs[i].Spec.ClusterID),
			f.subnet(f.configs[i].Metadata.Name, "appgw"))
		dropped, broken := m.Dropped > 0 || v.Cluster == f.leads && f.cutOff(truth, v.Cluster),
			v.State == verdict.Broken
		if dropped == broken || m.Pairs == 0 || v.State == verdict.Unknown ||
			v.Seen().Picture.Stopped { // a stopped cluster sends nothing
			continue
		}
		wrong = append(wrong, fmt.Sprintf("%s is %s (%s), and of %d pairs %d are dropped: %+v",
			v.Cluster, v.State, v.Sentence, m.Pairs, m.Dropped, m.Broken))
	}
	return wrong
}
