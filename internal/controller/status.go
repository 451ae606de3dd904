package controller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/picture"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// board keeps the result of the last check of each cluster, until it is written into the objects.
type board struct {
	mu    sync.Mutex
	shown map[string]shown // by config name
}

// shown is the result of a check for one cluster.
type shown struct {
	generation int64 // of the object whose spec was checked
	conditions []v1alpha1.Condition
	targets    []v1alpha1.TargetStatus
	change     *v1alpha1.Change
	failed     string
}

// take notes a check. acting is set if its changes are yet to be made. generation returns the
// generation of an object that the keeper has.
func (b *board) take(r keeper.Result, acting bool, generation func(name string) int64) {
	if r.Seen.Snapshot == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, config := range r.Checked() {
		name := config.Metadata.Name
		before := b.shown[name]
		s := showing(r, &config)
		if acting && len(before.conditions) > 0 && s.conditions[0].Status == "True" {
			s.conditions[0] = before.conditions[0] // not all findings are known yet
			s.failed = before.failed
		}
		s.generation = generation(name)
		s.change = cmp.Or(lastChange(r, name), before.change)
		b.shown[name] = s
	}
}

func (b *board) of(name string) (shown, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.shown[name]
	return s, ok
}

func (b *board) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shown = map[string]shown{}
}

// lastChange describes the last change of a check.
func lastChange(r keeper.Result, name string) *v1alpha1.Change {
	lines := changed(r, name)
	if len(lines) == 0 {
		return nil
	}
	return &v1alpha1.Change{Time: stamp(r.Started.Add(r.Elapsed)),
		Message: strings.Join(lines, "; ")}
}

// changed describes the changes that a check made for a cluster, a line for each resource and verb.
func changed(r keeper.Result, name string) []string {
	counts := map[string]int{}
	var lines []string
	for _, o := range r.Changes {
		if o.Cluster != name || o.State != plan.Done {
			continue
		}
		line := fmt.Sprintf("%s: routes %sd", o.Resource.Short(), o.Verb)
		if o.Verb == plan.Associate {
			property, value := o.New.Associated()
			line = fmt.Sprintf("%s: %s %s put back", o.Resource.Short(), property.Name(),
				value.Short())
		}
		if counts[line]++; counts[line] == 1 {
			lines = append(lines, line)
		}
	}
	for i, line := range lines {
		if n := counts[line]; strings.Contains(line, ": routes ") {
			lines[i] = fmt.Sprintf("%s (%d)", line, n)
		}
	}
	return lines
}

// Conditions returns those of a cluster that was checked: Ready, Guarded and Synced.
func Conditions(r keeper.Result, config *v1alpha1.ClusterRoutes) []v1alpha1.Condition {
	return showing(r, config).conditions
}

// showing makes the conditions and counts of a cluster.
func showing(r keeper.Result, config *v1alpha1.ClusterRoutes) shown {
	p := pictureOf(r, config)
	s := shown{failed: worstError(r, config.Metadata.Name)}
	why := withheld(r, config.Metadata.Name)
	paused := pausedBy(r, config.Metadata.Name)
	guard := withPause(guarded(p, config, why, quietOf(r, config.Metadata.Name)), paused)
	s.conditions = append(s.conditions, ready(r, config.Metadata.Name), guard)
	synced := v1alpha1.Condition{Type: v1alpha1.ConditionSynced, Status: "True",
		Reason: "InSync", Message: "the targets have the cluster's pod routes"}
	if len(config.Spec.Targets) == 0 {
		synced.Reason, synced.Message = "NoTargets", "the spec names no targets"
	}
	var off []string
	for _, t := range p.Tables {
		if t.Role != picture.RoleTarget {
			continue
		}
		count := v1alpha1.TargetStatus{RouteTableID: string(t.ID)}
		unknown := t.Unread != "" || p.Unread != "" || r.Seen.Table(t.ID) == nil ||
			p.Unsourced != ""
		for _, route := range t.Routes {
			switch route.State {
			case picture.Works, picture.Idle:
				count.Expected++
				count.Correct++
			case picture.Missing, picture.Wrong:
				count.Expected++
			case picture.Stale:
				count.Stale++
			case picture.Unknown:
				unknown = true
			}
		}
		s.targets = append(s.targets, count)
		switch {
		case count.Correct < count.Expected || count.Stale > 0:
			line := fmt.Sprintf("%s has %d of %d routes", t.ID.Short(), count.Correct,
				count.Expected)
			if count.Stale > 0 {
				line += fmt.Sprintf(", and %d stale", count.Stale)
			}
			off = append(off, line+because(why(t.ID)))
		case unknown:
			synced.Status, synced.Reason = "Unknown", "NotRead"
			synced.Message = fmt.Sprintf("the routes of %s are not known%s", t.ID.Short(),
				because(cmp.Or(t.Unread, p.Unread, p.Unsourced)))
		}
	}
	if len(off) > 0 {
		synced.Status, synced.Reason = "False", reasonOutOfSync
		synced.Message = strings.Join(off, "; ")
	}
	synced = withPause(synced, paused)
	s.conditions = append(s.conditions, synced)
	return s
}

// pictureOf returns the picture that the cluster's verdict is based on, so that the conditions
// agree with it.
func pictureOf(r keeper.Result, config *v1alpha1.ClusterRoutes) picture.Cluster {
	for _, v := range r.Verdicts {
		if v.Cluster == config.Metadata.Name && v.Seen() != nil {
			return v.Seen().Picture
		}
	}
	return picture.Of(r.Seen, config, r.Configs, plan.TakenBy(r.Configs))
}

// pausedBy says that a cluster is paused, by whom and until when, or returns "".
func pausedBy(r keeper.Result, name string) string {
	for _, f := range r.Findings {
		if f.Code == finding.Paused && (f.Cluster == name || f.Cluster == "") {
			return f.Message
		}
	}
	return ""
}

// withPause adds to a condition that nothing is changed while the cluster is paused.
func withPause(c v1alpha1.Condition, paused string) v1alpha1.Condition {
	switch {
	case paused == "":
	case c.Type == v1alpha1.ConditionGuarded && c.Status == "True" && c.Reason == reasonEnforced:
		c.Status, c.Reason, c.Message = "False", "Paused", paused
	case c.Reason == reasonLost, c.Reason == reasonOutOfSync:
		c.Message += "; " + paused
	}
	return c
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// withheld says why changes to a resource were withheld, or returns "".
func withheld(r keeper.Result, name string) func(arm.ID) string {
	return func(id arm.ID) string {
		for _, f := range r.Findings {
			if f.Code == finding.ChangesWithheld && f.Cluster == name &&
				id.Equal(arm.ID(f.Resource)) {
				return f.Message
			}
		}
		return ""
	}
}

// ready returns the condition Ready: the state of the cluster's verdict, as its reason. It is False
// if packets do not arrive, or do not take the declared way.
func ready(r keeper.Result, name string) v1alpha1.Condition {
	c := v1alpha1.Condition{Type: v1alpha1.ConditionReady, Status: "Unknown",
		Reason: reasonOf(verdict.Unknown), Message: "its state is not known yet"}
	i := slices.IndexFunc(r.Verdicts, func(v verdict.Verdict) bool { return v.Cluster == name })
	if i < 0 {
		return c
	}
	v := r.Verdicts[i]
	c.Reason, c.Message = reasonOf(v.State), v.Sentence
	switch {
	case v.State.Harmed():
		c.Status = "False"
	case v.State != verdict.Unknown:
		c.Status = "True"
	}
	if v.Silenced {
		c.Message += " (silenced)"
	}
	return c
}

// worstError returns the worst error of a cluster, or of all clusters, that no person silenced, or
// "".
func worstError(r keeper.Result, name string) string {
	loud := finding.Loud(r.Findings)
	for _, f := range loud { // the worst comes first
		if f.Severity == finding.Error && (f.Cluster == name || f.Cluster == "") {
			return f.Message
		}
	}
	return ""
}

// reasonOf writes a state or a code as the reason of a condition or an Event: at-risk is AtRisk.
func reasonOf[S ~string](state S) string {
	words := strings.Split(string(state), "-")
	for i, w := range words {
		words[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// quietOf returns the resources of a cluster whose findings people silenced.
func quietOf(r keeper.Result, name string) map[string]bool {
	return finding.Quiet(slices.DeleteFunc(slices.Clone(r.Findings), func(f finding.Finding) bool {
		return f.Cluster != name
	}))
}

// Reasons of conditions: a subnet lacks what it must have; no subnet does, and the guard puts back
// what is lost; a target differs.
const (
	reasonLost      = "AssociationLost"
	reasonEnforced  = "Enforced"
	reasonOutOfSync = "OutOfSync"
)

// guarded returns the condition Guarded. quiet has the subnets whose losses people silenced.
func guarded(p picture.Cluster, config *v1alpha1.ClusterRoutes, why func(arm.ID) string,
	quiet map[string]bool) v1alpha1.Condition {
	c := v1alpha1.Condition{Type: v1alpha1.ConditionGuarded}
	var lost, unknown, watched []string
	subnets, defended := 0, 0
	tableless := p.Plugin != "" && p.Plugin != "kubenet" // its node subnets need no route table
	for _, subnet := range p.Subnets {
		required := subnet.Required()
		if subnet.Role == picture.RoleTarget || len(required) == 0 &&
			subnet.Role == picture.RoleNodes && tableless {
			continue
		}
		subnets++
		if len(required) == 0 {
			unknown = append(unknown, subnet.ID.Short())
		}
		for _, r := range required {
			if onlyReports(p, config, subnet, r.Property) {
				watched = append(watched, r.Property.Name()+" of "+subnet.ID.Short())
			} else {
				defended++
			}
			switch r.State {
			case picture.Lost, picture.Other:
				line := subnet.ID.Short() + " has lost its " + r.Property.Name()
				if r.State == picture.Other {
					line = subnet.ID.Short() + " has another " + r.Property.Name()
				}
				if quiet[subnet.ID.Key()] {
					line += " (silenced)"
				}
				lost = append(lost, line+because(why(subnet.ID)))
			case picture.Unknown:
				unknown = append(unknown, subnet.ID.Short())
			}
		}
	}
	mode := config.Spec.Guard.Mode
	switch {
	case mode == v1alpha1.GuardOff:
		c.Status, c.Reason, c.Message = "False", "Off", "spec.guard.mode is Off"
	case len(lost) > 0:
		c.Status, c.Reason, c.Message = "False", reasonLost, strings.Join(lost, "; ")
	case subnets == 0 && p.Plugin == inventory.NoCluster:
		c.Status, c.Reason, c.Message = "True", "NoSubnets", "the spec names no subnet"
	case subnets == 0 && tableless:
		c.Status, c.Reason = "True", "NoSubnets"
		c.Message = "the node subnets of a cluster with " + p.Plugin + " need no route table, " +
			"and the spec names no other subnet"
	case subnets == 0 || len(unknown) > 0:
		c.Status, c.Reason = "Unknown", "NotRead"
		c.Message = "the node subnets are not known" + because(p.Unread)
		if len(unknown) > 0 {
			c.Message = "it is not known whether these have what they must have: " +
				strings.Join(unknown, ", ")
		}
	case mode == v1alpha1.GuardObserve || defended == 0:
		c.Status, c.Reason = "False", "Observe"
		c.Message = "the subnets have what they must have, but what one loses is only reported"
	default:
		c.Status, c.Reason = "True", reasonEnforced
		c.Message = fmt.Sprintf("%d subnets have what they must have, and what one loses is put "+
			"back", subnets)
		if subnets == 1 {
			c.Message = "1 subnet has what it must have, and what it loses is put back"
		}
		if len(watched) > 0 {
			c.Message += ", but the loss of these is only reported: " + strings.Join(watched, ", ")
		}
	}
	return c
}

// onlyReports reports whether the guard only reports what a subnet loses: security groups that
// spec.guard.securityGroups observes, and networks that AKS made, except the table that kubenet
// needs.
func onlyReports(p picture.Cluster, config *v1alpha1.ClusterRoutes, subnet picture.Subnet,
	property inventory.Property) bool {
	if property == inventory.PropertyGroup &&
		config.Spec.Guard.OfGroups() != v1alpha1.GuardEnforce {
		return true
	}
	needed := property == inventory.PropertyTable && p.Plugin == "kubenet" &&
		subnet.Role == picture.RoleNodes
	return p.NodeGroup != "" && subnet.ID.Group().Equal(p.NodeGroup) && !needed
}

// longestMessage is the limit of Kubernetes for the message of a condition (metav1.Condition).
const longestMessage = 32768

// statusOf returns the status that an object should have. ok is false if there is nothing new. Its
// texts are escaped, because kubectl and others write them to terminals.
func statusOf(o *ClusterRoutes, s shown, checked bool, refused refusal, unguarded string,
	now time.Time) (status v1alpha1.Status, ok bool) {
	status = v1alpha1.Status{LastChange: o.Status.LastChange}
	conditions := s.conditions
	switch {
	case refused.reason != "" && refused.inForce == 0:
		conditions = nil
		for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionGuarded,
			v1alpha1.ConditionSynced} {
			conditions = append(conditions, v1alpha1.Condition{Type: kind, Status: "False",
				Reason: refused.reason, Message: refused.String()})
		}
		s.generation, status.LastError = refused.generation, refused.message
	case !checked:
		return status, false
	default:
		status.LastError = s.failed
		status.Targets = s.targets
		correct, expected := 0, 0
		for _, t := range s.targets {
			correct, expected = correct+t.Correct, expected+t.Expected
		}
		if len(s.targets) > 0 {
			status.Routes = fmt.Sprintf("%d/%d", correct, expected)
		}
		if s.change != nil {
			status.LastChange = &v1alpha1.Change{Time: s.change.Time,
				Message: short(s.change.Message, longestMessage)}
		}
	}
	status.ObservedGeneration = s.generation
	if refused.inForce > 0 {
		status.ObservedGeneration, status.LastError = refused.generation, refused.message
	}
	status.LastError = short(status.LastError, longestMessage)
	for _, c := range conditions {
		c.ObservedGeneration = s.generation
		if c.Type == v1alpha1.ConditionGuarded && unguarded != "" {
			c.Status, c.Reason, c.Message = "False", "EgressInTable", unguarded
		}
		if refused.inForce > 0 {
			c = withRefusal(c, refused)
		}
		c.Message = short(c.Message, longestMessage)
		c.LastTransitionTime = stamp(now)
		i := slices.IndexFunc(o.Status.Conditions, func(old v1alpha1.Condition) bool {
			return old.Type == c.Type && old.Status == c.Status
		})
		if i >= 0 {
			c.LastTransitionTime = o.Status.Conditions[i].LastTransitionTime
		}
		status.Conditions = append(status.Conditions, c)
	}
	return status, true
}

// withRefusal adds to a condition that an earlier spec is in force. Ready says why. The other
// conditions are about the earlier spec, as their observedGeneration is.
func withRefusal(c v1alpha1.Condition, refused refusal) v1alpha1.Condition {
	if c.Type != v1alpha1.ConditionReady {
		c.Message += fmt.Sprintf("; the spec of generation %d is in force", refused.inForce)
		return c
	}
	also := ""
	if c.Status == "False" {
		also = "; " + c.Message
	}
	c.Status, c.Reason, c.Message = "False", refused.reason, refused.String()+also
	c.ObservedGeneration = refused.generation
	return c
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
