package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/trace"
)

// Commands name clusters by name, or by resource ID where names repeat.

// named reports whether --cluster is a name. An ID has slashes.
func (o initOptions) named() bool { return o.cluster != "" && !strings.Contains(o.cluster, "/") }

// check reports a wrong --subscription or --cluster before the login.
func (o initOptions) check() error {
	_, _, err := o.scope()
	return err
}

// scope returns the subscription that the flags name, and the cluster if they name it by its ID.
func (o initOptions) scope() (scope, one arm.ID, err error) {
	if o.cluster != "" && !o.named() {
		if one, err = arm.ParseID(o.cluster); err == nil && !one.Is(arm.TypeCluster) {
			err = fmt.Errorf("it is the ID of a %s, expected a %s", one.Type(), arm.TypeCluster)
		}
		if err != nil {
			return "", "", fmt.Errorf("--cluster: %q is not a cluster's resource ID: %w",
				o.cluster, err)
		}
	}
	if o.subscription == "" {
		if one != "" {
			scope = one.SubscriptionID()
		}
		return scope, one, nil
	}
	if scope, err = subscriptionID(o.subscription); err != nil {
		return "", "", err
	}
	if one != "" && !scope.Equal(one.SubscriptionID()) {
		return "", "", fmt.Errorf("--cluster: %s is not in --subscription %s", one, scope.Name())
	}
	return scope, one, nil
}

// subscriptionID reads the value of --subscription.
func subscriptionID(text string) (arm.ID, error) {
	subscription := strings.TrimSuffix(text, "/")
	if rest, isID := strings.CutPrefix(strings.ToLower(subscription), "/subscriptions/"); isID {
		subscription = rest
	}
	if uuid.Validate(subscription) != nil {
		return "", fmt.Errorf("--subscription: %q is not a subscription's ID, expected one such "+
			"as 11111111-1111-1111-1111-111111111111 (az account show --query id)", text)
	}
	return arm.SubscriptionID(subscription), nil
}

// oneOrNone returns a list with the one cluster, or an empty list.
func oneOrNone(one arm.ID) []arm.ID {
	if one == "" {
		return nil
	}
	return []arm.ID{one}
}

// find returns the scope and the cluster to read. A flag names the cluster by its ID, or by its
// name in a subscription or in all subscriptions that this login sees. Otherwise it returns all
// clusters of a subscription, which may be the only visible one.
func (o initOptions) find(ctx context.Context, client *azure.Client) (scope, one arm.ID,
	err error) {
	scope, one, err = o.scope()
	if err != nil || one != "" || scope != "" && !o.named() {
		return scope, one, err
	}
	subscriptions := []arm.ID{scope}
	if scope == "" {
		if subscriptions, err = client.Subscriptions(ctx); err != nil {
			return "", "", err
		}
	}
	if o.named() {
		one, err = clusterNamed(ctx, client, subscriptions, o.cluster)
		return one.SubscriptionID(), one, err
	}
	switch len(subscriptions) {
	case 0:
		return "", "", errors.New("this login sees no subscription")
	case 1:
		return subscriptions[0], "", nil
	}
	names := make([]string, len(subscriptions))
	for i, id := range subscriptions {
		names[i] = id.Name()
	}
	return "", "", fmt.Errorf("this login sees several subscriptions: "+
		"name one with --subscription, or a cluster: %s", strings.Join(names, ", "))
}

// findAll works like find for any number of names and IDs.
func (o examineOptions) findAll(ctx context.Context, client *azure.Client) (scope arm.ID,
	ones []arm.ID, err error) {
	if len(o.names) == 0 {
		scope, one, err := o.find(ctx, client)
		return scope, oneOrNone(one), err
	}
	for _, name := range o.names {
		_, one, err := initOptions{subscription: o.subscription, cluster: name}.find(ctx, client)
		if err != nil {
			return "", nil, err
		}
		if !slices.ContainsFunc(ones, one.Equal) {
			ones = append(ones, one)
		}
	}
	return "", ones, nil
}

// clusterNamed finds the only cluster with a name.
func clusterNamed(ctx context.Context, client *azure.Client, subscriptions []arm.ID, name string) (
	arm.ID, error) {
	var found []arm.ID
	var others []string
	for _, subscription := range subscriptions {
		clusters, err := client.Clusters(ctx, subscription)
		if err != nil {
			return "", err
		}
		for _, id := range clusters {
			if strings.EqualFold(id.Name(), name) {
				found = append(found, id)
			} else {
				others = append(others, id.Name())
			}
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return "", fmt.Errorf("several clusters are named %s, name one by its ID: %s", name,
			strings.Join(texts(found), ", "))
	case len(others) == 0:
		return "", fmt.Errorf("this login sees no cluster named %s, and no other cluster", name)
	}
	return "", fmt.Errorf("this login sees no cluster named %s%s", name, instead(name, others))
}

// noCluster returns the error about a cluster that is missing from a file. It names the file, and
// what to name instead.
func noCluster(name, file string, names []string) error {
	if len(names) == 0 {
		return fmt.Errorf("no cluster %s in %s, which has none", finding.Show(name), file)
	}
	return fmt.Errorf("no cluster %s in %s%s", finding.Show(name), file, instead(name, names))
}

// instead returns the end of an error about a name that does not exist: similar names, or all
// existing names.
func instead(name string, names []string) string {
	if near := trace.Near(name, names); near != "" {
		return near
	}
	slices.Sort(names)
	return ", expected one of " + strings.Join(names[:min(len(names), 20)], ", ")
}
