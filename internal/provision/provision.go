// Package provision builds and removes clusters: it takes the steps that package build plans, one
// after the other, and reports each. It must not decide what a cluster consists of, or know how
// anything is shown.
//
// How it works. Runs share no memory. Each run reads what exists, step by step, and does the rest.
// So you can kill it at any moment and run it again, and a second run changes nothing.
package provision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const (
	// stepWithin is how long a resource may take, clusterWithin how long a cluster or a gateway:
	// AKS takes about 5 minutes, more when nodes are scarce.
	stepWithin, clusterWithin = 5 * time.Minute, time.Hour
	// roleWithin is how long role assignments may take to take effect: AKS can take an hour to see
	// them (configure-kubenet).
	roleWithin = time.Hour
	// roleFirst is the wait after the first try. It doubles after each try, up to roleMost.
	roleFirst, roleMost = 2 * time.Second, 20 * time.Second
)

// Outcome is the result of a step.
type Outcome struct {
	build.Step
	build.Decision
	// Have is the document that a preview found, nil if there is none.
	Have *arm.Document
	// Done is set when the resource was made or changed, Err when that failed. A preview, or a
	// resource that is kept, sets neither.
	Done    bool
	Elapsed time.Duration
	Err     error
}

// Observer receives progress. Each function may be nil.
type Observer struct {
	// Begins is called before a write.
	Begins func(number, of int, step build.Step, verb build.Verb)
	// Waits is called repeatedly with what the step waits for, and for how long.
	Waits func(what string, since time.Duration)
	// Ended is called with the outcome of a step.
	Ended func(number, of int, o Outcome)
}

// FitToNetwork reads the existing network that a cluster will use, and returns the cluster fitted
// to it. A cluster with its own network is returned unchanged. A *build.Error says what does not
// fit.
func FitToNetwork(ctx context.Context, client *azure.Client, c build.Cluster) (build.Cluster,
	error) {
	if c.Existing == nil {
		return c, nil
	}
	var n build.Network
	var err error
	if n.VNet, err = client.Find(ctx, c.VNetID()); err != nil {
		return c, err
	}
	if n.ClusterIdentity, err = client.Find(ctx, c.IdentityID()); err != nil {
		return c, err
	}
	cluster, err := client.Find(ctx, c.ClusterID())
	if err != nil {
		return c, err
	}
	n.ClusterBuilt, n.Tables = cluster != nil, map[string]arm.Document{}
	if n.VNet != nil {
		for _, id := range c.TablesOn(*n.VNet) {
			table, err := client.Find(ctx, id)
			if err != nil {
				return c, err
			}
			if table != nil {
				n.Tables[id.Key()] = *table
			}
		}
	}
	return c.Use(n)
}

// Preview lists what each step would do, and writes nothing.
func Preview(ctx context.Context, client *azure.Client, c build.Cluster, steps []build.Step,
	adopt bool) ([]Outcome, error) {
	made := build.Made{}
	var all []Outcome
	for _, step := range steps {
		have, err := client.Find(ctx, step.ID)
		if err != nil {
			return nil, err
		}
		all = append(all,
			Outcome{Step: step, Have: have, Decision: step.Decide(c, have, made, adopt)})
		if have != nil {
			made[step.ID.Key()] = *have
		}
	}
	return all, nil
}

// Take takes the steps. It stops at the first failure. What exists stays, and the next run
// continues from there.
func Take(ctx context.Context, client *azure.Client, c build.Cluster, steps []build.Step,
	adopt bool, tell Observer) ([]Outcome, error) {
	made := build.Made{}
	var all []Outcome
	for i, step := range steps {
		began := time.Now()
		o := Outcome{Step: step}
		r := run{client: client, cluster: c, step: step, made: made, adopt: adopt, tell: tell,
			began: began}
		r.begins = func(verb build.Verb) {
			if tell.Begins != nil {
				tell.Begins(i+1, len(steps), step, verb)
			}
		}
		o.Decision, o.Err = r.take(ctx)
		o.Done, o.Elapsed = o.Err == nil && o.Verb != build.Keep, time.Since(began)
		all = append(all, o)
		if tell.Ended != nil {
			tell.Ended(i+1, len(steps), o)
		}
		if o.Err != nil {
			return all, fmt.Errorf("step %d of %d, %s %s: %w", i+1, len(steps), step.What(),
				step.ID.Short(), o.Err)
		}
	}
	return all, nil
}

// run is one step in progress.
type run struct {
	client  *azure.Client
	cluster build.Cluster
	step    build.Step
	made    build.Made
	adopt   bool
	tell    Observer
	began   time.Time
	begins  func(build.Verb)
}

func (r run) within() time.Duration {
	if r.step.ID.Is(arm.TypeCluster) || r.step.ID.Is(arm.TypeGateway) {
		return clusterWithin
	}
	return stepWithin
}

// attempts is how often a step is decided again because its resource has changed in the meantime.
const attempts = 5

// take makes or changes the resource of a step. If another writer has changed the resource since it
// was read, take reads and decides again.
func (r run) take(ctx context.Context) (d build.Decision, err error) {
	for range attempts {
		if d, err = r.takeOnce(ctx); !errors.Is(err, azure.ErrChanged) {
			break
		}
	}
	return d, err
}

// takeOnce reads the resource, decides, writes, and reads it back as proof.
func (r run) takeOnce(ctx context.Context) (build.Decision, error) {
	have, err := r.client.Find(ctx, r.step.ID)
	if err != nil {
		return build.Decision{}, err
	}
	if have != nil && !inventory.Settled(have.Raw) { // by a run that was killed, or by others
		r.waits("an operation on it to end")
		if have, err = r.client.Settle(ctx, r.step.ID, r.within()); err != nil {
			return build.Decision{}, err
		}
	}
	d := r.step.Decide(r.cluster, have, r.made, r.adopt)
	failed := have != nil && inventory.ProvisioningState(have.Raw) == "Failed"
	if failed && d.Verb == build.Keep {
		d.Verb = build.Change
	}
	after := have
	switch d.Verb {
	case build.Keep:
	case build.Create:
		r.begins(d.Verb)
		body, err := json.Marshal(r.step.Body(r.made))
		if err != nil {
			return d, err
		}
		if after, err = r.putUntilRolesWork(ctx, body, ""); err != nil {
			return d, err
		}
	case build.Change:
		r.begins(d.Verb)
		if r.step.Found {
			after, err = r.changeFound(ctx)
			if err != nil {
				return d, err
			}
			break
		}
		body, err := d.Edit(have.Raw)
		if err != nil {
			return d, err
		}
		if after, err = r.putUntilRolesWork(ctx, body, have.ETag); err != nil {
			return d, err
		}
	default:
		return d, errors.New(d.Why)
	}
	r.made[r.step.ID.Key()] = *after
	if left := r.step.Decide(r.cluster, after, r.made, r.adopt); d.Verb != build.Keep &&
		left.Verb != build.Keep {
		return d, fmt.Errorf("it was written, and reads differently: %s", left.Wrong())
	}
	return d, nil
}

// changeFound changes a resource that others made: it edits a fresh document, and keeps everything
// else in it.
func (r run) changeFound(ctx context.Context) (*arm.Document, error) {
	written, err := r.client.Write(ctx, r.step.ID, func(doc arm.Document) ([]byte, error) {
		return r.step.Decide(r.cluster, &doc, r.made, r.adopt).Edit(doc.Raw)
	}, nil)
	return &written.After, err
}

// putUntilRolesWork puts a document. If role assignments have not taken effect yet, it retries
// until they do.
func (r run) putUntilRolesWork(ctx context.Context, body []byte,
	etag string) (*arm.Document, error) {
	for pause := roleFirst; ; pause = min(2*pause, roleMost) {
		doc, err := r.client.Make(ctx, r.step.ID, body, etag, r.within())
		if err == nil {
			return &doc, nil
		}
		since := time.Since(r.began)
		if !r.step.WaitsForRoles || !r.lacksRoles(err) || since > roleWithin {
			return nil, err
		}
		r.waits("the new identity and its roles to take effect: usually a minute or two, up to " +
			"an hour")
		if err := azure.Pause(ctx, pause); err != nil {
			return nil, err
		}
	}
}

func (r run) waits(what string) {
	if r.tell.Waits != nil {
		r.tell.Waits(what, time.Since(r.began))
	}
}

// lacksRoles reports whether AKS refuses a cluster because its identity, not the caller, lacks
// rights: a new role assignment takes effect later. Azure names the principal by object ID.
func (r run) lacksRoles(err error) bool {
	var refused *azure.Error
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Code {
	case "CustomRouteTableMissingPermission", "PrincipalNotFound":
		return true
	case "AuthorizationFailed", "LinkedAuthorizationFailed":
		identity := r.made[r.cluster.IdentityID().Key()]
		principal := gjson.GetBytes(identity.Raw, "properties.principalId").String()
		return principal != "" &&
			strings.Contains(strings.ToLower(refused.Message), strings.ToLower(principal))
	}
	return false
}
