package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/kube"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// statusByObjects reads the status from the ClusterRoutes objects of a Kubernetes API server.
func statusByObjects(ctx context.Context, o statusOptions) (report.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	api, err := kube.Load(kube.Options{Kubeconfig: o.kubeconfig, Context: o.context, Trusted: true})
	if err != nil {
		return report.Status{}, err
	}
	objects, err := api.ClusterRoutes(ctx)
	if err != nil {
		return report.Status{}, err
	}
	leaders, unknown := api.Leaders(ctx, cmp.Or(o.namespace, api.PodNamespace()))
	now := time.Now()
	s := report.Status{Source: api.Server(), Now: now, Clusters: []report.ClusterStatus{},
		Findings: []finding.Finding{}}
	for _, object := range objects {
		s.Clusters = append(s.Clusters, clusterStatus(object))
	}
	slices.SortFunc(s.Clusters, func(a, b report.ClusterStatus) int {
		return strings.Compare(a.Name, b.Name)
	})
	slices.SortFunc(leaders, func(a, b kube.Leader) int {
		return b.Renewed.Compare(a.Renewed)
	})
	switch {
	case unknown != nil:
		s.Checked = now
		s.Note = fmt.Sprintf("Whether a controller runs is not known: %v", unknown)
	case len(leaders) == 0:
		s.Note = "No controller runs: this status stays as it is."
	case !leaders[0].Alive:
		s.Note = fmt.Sprintf("No controller runs: the last one (%s in namespace %s) was alive at "+
			"%s. This status stays as it is.", leaders[0].Identity, leaders[0].Namespace,
			leaders[0].Renewed.UTC().Format("2006-01-02 15:04:05 UTC"))
	default:
		s.Live, s.Checked = true, leaders[0].Renewed
		s.Note = fmt.Sprintf("The controller is %s in namespace %s.", leaders[0].Identity,
			leaders[0].Namespace)
	}
	return s, nil
}

// clusterStatus returns the state of one object, by its condition Ready.
func clusterStatus(object kube.ClusterRoutes) report.ClusterStatus {
	c := report.ClusterStatus{Name: object.Metadata.Namespace + "." + object.Metadata.Name,
		State: "unseen", Sentence: "not checked yet", Findings: []finding.Finding{}}
	var ready, guarded v1alpha1.Condition
	for _, condition := range object.Status.Conditions {
		switch condition.Type {
		case v1alpha1.ConditionReady:
			ready = condition
		case v1alpha1.ConditionGuarded:
			guarded = condition
		}
	}
	if ready.Status == "" || object.Status.ObservedGeneration < object.Metadata.Generation {
		return c
	}
	c.Sentence = ready.Message
	if object.Status.Routes != "" {
		c.Sentence += " (" + object.Status.Routes + " routes)"
	}
	for _, state := range verdict.States {
		if strings.ReplaceAll(string(state), "-", "") == strings.ToLower(ready.Reason) {
			c.State = state.Color()
			if state == verdict.InSync && guarded.Status == "False" &&
				guarded.Reason != string(v1alpha1.GuardObserve) {
				// everything is correct, but would not be repaired
				c.Sentence += "; " + guarded.Message
			}
			c.Verdict = &verdict.Verdict{Cluster: c.Name, State: state, Sentence: ready.Message}
			return c
		}
	}
	if ready.Status == "False" { // the object is refused, or a removal fails
		c.State = verdict.Bad
	}
	return c
}
