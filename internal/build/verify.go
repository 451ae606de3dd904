package build

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/diagnose"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/trace"
)

// How verification works. A claim is one thing that must be right about a cluster; its detail is
// what was counted. Package diagnose decides what is wrong: a claim is wrong if a finding of
// package diagnose concerns it. A claim is right only if its facts were read. In all other cases it
// was not checked, and its detail says what was missing. A claim that only Kubernetes can answer
// was not asked if no kubeconfig was given. Claims about what ARM shows can still be right.

// ClaimState is the state of a claim.
type ClaimState string

// A claim is not checked if the reader lacks a permission, and not asked if Kubernetes was not
// read.
const (
	ClaimRight     ClaimState = "right"
	ClaimWrong     ClaimState = "wrong"
	ClaimUnchecked ClaimState = "not-checked"
	ClaimUnasked   ClaimState = "not-asked"
)

// Claim is one thing that must be right about a cluster.
type Claim struct {
	Cluster string     `json:"cluster"`
	Topic   string     `json:"topic"`
	Claim   string     `json:"claim"`
	State   ClaimState `json:"state"`
	// Detail is what was counted, what is wrong, or why it was not checked.
	Detail   string `json:"detail"`
	Resource string `json:"resource,omitempty"`
	// Findings are the codes that make it wrong.
	Findings []finding.Code `json:"findings,omitempty"`
}

// The topics of claims.
const (
	topicNodes       = "nodes"
	topicNodeSubnet  = "node-subnet"
	topicPods        = "pods"
	topicAddresses   = "addresses"
	topicRoom        = "room"
	topicAssociation = "association"
	topicRoutes      = "routes"
	topicTarget      = "target"
	topicPaths       = "paths"
	topicRoles       = "roles"
	topicKeeper      = "keeper-rights"
	topicEgress      = "egress"
	topicGateway     = "gateway"
	topicOther       = "other"
)

// Verification has the claims about clusters.
type Verification struct {
	Claims []Claim
	// Wrong are the findings that make claims wrong.
	Wrong []finding.Finding
}

// Verify makes the claims about the clusters of a case. The findings are those of diagnose.Check
// for the same case.
func Verify(c diagnose.Case, findings []finding.Finding) Verification {
	var out Verification
	tracer := trace.New(c.Snapshot, trace.Options{})
	for _, id := range c.Clusters {
		counts, read := c.Count(id)
		if !read {
			out.Claims = append(out.Claims, Claim{
				Cluster: id.Name(), Topic: topicNodes, Claim: "cluster", State: ClaimUnchecked,
				Detail: "it could not be read: " +
					unreadReason(c.Snapshot, id), Resource: string(id),
			})
			continue
		}
		v := &verifier{
			s: c.Snapshot, Counts: counts, proposed: c.Proposed, told: map[string]bool{},
			limit: cmp.Or(c.RouteLimit, inventory.DefaultRouteLimit),
		}
		for _, f := range findings {
			if f.Cluster == counts.Name || f.Cluster == "" {
				v.found = append(v.found, f)
			}
		}
		v.verify(tracer)
		out.Claims = append(out.Claims, v.claims...)
		for _, f := range v.found {
			if v.told[f.Key()] {
				out.Wrong = append(out.Wrong, f)
			}
		}
	}
	out.Wrong = finding.Sort(out.Wrong) // each once
	return out
}

// verifier makes the claims about one cluster.
type verifier struct {
	diagnose.Counts
	s        *inventory.Snapshot
	proposed bool
	limit    int
	found    []finding.Finding
	told     map[string]bool // keys of the findings that made a claim wrong
	claims   []Claim
}

func (v *verifier) verify(tracer *trace.Tracer) {
	if inventory.Clusterless(v.Cluster.ID) {
		v.guarded()
		v.keeperRights()
		v.other()
		return
	}
	v.nodes()
	v.places()
	v.addresses()
	v.room()
	if v.Cluster.Kubenet() {
		v.associations()
	}
	if v.Cluster.Kubenet() || !v.proposed {
		v.guarded()
	}
	if v.Cluster.Kubenet() {
		v.routes()
		v.targets()
	}
	v.paths(tracer)
	v.roles()
	v.keeperRights()
	v.egress()
	v.gateways()
	v.other()
}

// draft is a claim without its state. Findings make it wrong, whatever the counts are.
type draft struct {
	v *verifier
	Claim
	found []finding.Finding
}

// about begins a claim about a resource. right, wrong or unchecked ends it.
func (v *verifier) about(topic, what string, resource arm.ID, found []finding.Finding) draft {
	c := Claim{Cluster: v.Name, Topic: topic, Claim: what, Resource: string(resource)}
	return draft{v, c, found}
}

func (d draft) right(format string, args ...any)     { d.end(ClaimRight, format, args) }
func (d draft) wrong(format string, args ...any)     { d.end(ClaimWrong, format, args) }
func (d draft) unchecked(format string, args ...any) { d.end(ClaimUnchecked, format, args) }

// unseen ends a claim about something that only Kubernetes shows.
func (d draft) unseen(format string, args ...any) {
	state := ClaimUnchecked
	if d.v.s.Kubernetes[d.v.Cluster.ID.Key()] == nil && !d.v.Cluster.Stopped {
		state = ClaimUnasked
	}
	d.end(state, format, args)
}

func (d draft) end(state ClaimState, format string, args []any) {
	d.State, d.Detail = state, fmt.Sprintf(format, args...)
	if len(d.found) > 0 {
		d.State, d.Detail = ClaimWrong, d.found[0].Message
	}
	if more := len(d.found) - 1; more > 0 {
		d.Detail += fmt.Sprintf(" (and %d more)", more)
	}
	for _, f := range d.found {
		d.v.told[f.Key()] = true
		if !slices.Contains(d.Findings, f.Code) {
			d.Findings = append(d.Findings, f.Code)
		}
	}
	d.v.claims = append(d.v.claims, d.Claim)
}

// unreadCodes are findings that say that something was not read: they make no claim wrong.
var unreadCodes = []finding.Code{
	finding.ReadFailed, finding.AzureUnreachable, finding.RightsUnread, finding.KubernetesUnread,
}

// against returns the findings with one of the codes, for a resource if one is given. Findings of
// severity info do not count.
func (v *verifier) against(resource arm.ID, codes ...finding.Code) (out []finding.Finding) {
	for _, f := range v.found {
		here := resource == "" || resource.Equal(arm.ID(f.Resource))
		if f.Severity > finding.Info && here && slices.Contains(codes, f.Code) {
			out = append(out, f)
		}
	}
	return out
}

// unreadReason says why a resource was not read.
func unreadReason(s *inventory.Snapshot, id arm.ID) string {
	if u, tried := s.Unread[id.Key()]; tried {
		return u.Reason()
	}
	return "it was not found; the login may lack rights to see it"
}

// kubernetes says why nodes or pods were not read, "" if they were.
func (v *verifier) kubernetes(pods bool) string {
	k := v.s.Kubernetes[v.Cluster.ID.Key()]
	switch {
	case v.Cluster.Stopped:
		return "the cluster is stopped"
	case k == nil:
		return "expected --get-kubeconfig, --kubeconfig, or --from-nodes and --from-pods"
	case k.Failed != "":
		return "the Kubernetes API could not be read: " + k.Failed
	case len(k.Nodes) == 0:
		return "no node was read: expected --kubeconfig, or --from-nodes"
	case pods && k.Pods == nil && k.Note != "":
		return "pods were not read: " + k.Note
	case pods && k.Pods == nil:
		return "pods were not read: expected --kubeconfig, or --from-pods"
	}
	return ""
}

// leftToDoctor reports findings that verify leaves to doctor. Blockers of a migration off kubenet
// are no fault of the present cluster, and routes of deleted clusters do not belong to it.
func leftToDoctor(code finding.Code) bool {
	return code == finding.KubenetRetired || code == finding.RoutesOrphaned ||
		strings.HasPrefix(string(code), "migration-")
}

// other claims that doctor finds nothing else.
func (v *verifier) other() {
	var wrong, unread []finding.Finding
	for _, f := range v.found {
		switch {
		case f.Severity == finding.Info || v.told[f.Key()] || leftToDoctor(f.Code):
		case slices.Contains(unreadCodes, f.Code):
			unread = append(unread, f)
		default:
			wrong = append(wrong, f)
		}
	}
	c := v.about(topicOther, "everything else that doctor checks", v.Cluster.ID, wrong)
	if len(unread) > 0 {
		c.unchecked("%s", unread[0].Message)
		return
	}
	c.right("nothing found")
}
