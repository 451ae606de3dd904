package provision

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/build"
)

// Traces are facts that a removal records before it begins, to prove at the end that nothing is
// left.
type Traces struct {
	// Principals are the object IDs of the cluster's identity and of the gateway's add-on.
	Principals []string
	gone       []arm.ID
}

// ReadTraces reads where a cluster can leave something behind.
func ReadTraces(ctx context.Context, client *azure.Client, c build.Cluster,
	planned []Removal) (Traces, error) {
	var t Traces
	for _, of := range []struct {
		id   arm.ID
		path string
	}{
		{c.IdentityID(), "properties.principalId"},
		{c.ClusterID(), "properties.addonProfiles.ingressApplicationGateway.identity.objectId"},
	} {
		have, err := client.Find(ctx, of.id)
		if err != nil {
			return t, err
		}
		if have == nil {
			continue
		}
		if who := gjson.GetBytes(have.Raw, of.path).String(); who != "" {
			t.Principals = append(t.Principals, who)
		}
	}
	for _, r := range planned {
		if r.Verb == build.Delete {
			t.gone = append(t.gone, r.ID)
		}
	}
	return t, nil
}

// Left proves that nothing is left of a deleted cluster. It lists what is left, and what it lacks
// the rights to check.
func Left(ctx context.Context, client *azure.Client, c build.Cluster, clusterOnly bool,
	t Traces) (left, unchecked []string, err error) {
	again, err := PreviewDelete(ctx, client, c, clusterOnly)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range again {
		if r.Verb != build.Keep {
			left = append(left, build.Word(r.ID)+" "+r.ID.Short())
		}
	}
	unseen := func(what string, err error) error {
		var fault *azure.Error
		if !errors.As(err, &fault) || fault.Status != http.StatusForbidden {
			return err
		}
		unchecked = append(unchecked, what+": "+fault.Error())
		return nil
	}
	if !clusterOnly { // else the identity stays, with its roles
		for _, who := range t.Principals {
			assigned, err := client.Assignments(ctx, c.Subscription, who)
			if err := unseen("role assignments of the identity "+who, err); err != nil {
				return left, unchecked, err
			}
			for _, id := range assigned {
				left = append(left,
					fmt.Sprintf("role assignment %s, of the identity %s, which is gone", id, who))
			}
		}
	}
	alerts, err := client.AlertResources(ctx, []arm.ID{arm.SubscriptionID(c.Subscription)})
	if err := unseen("alert rules", err); err != nil {
		return left, unchecked, err
	}
	for _, alert := range alerts {
		for _, scope := range gjson.GetBytes(alert.Raw, "properties.scopes").Array() {
			if id := arm.ID(scope.String()); slices.ContainsFunc(t.gone, id.Equal) {
				left = append(left, "alert rule "+alert.ID.Short()+", which watches "+id.Short())
			}
		}
	}
	return left, unchecked, nil
}
