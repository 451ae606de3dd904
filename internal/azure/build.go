package azure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works. One PUT of a whole document creates each resource. It is safe to repeat: it
// replaces an existing resource only under the ETag with which it was read. After any failure, even
// a lost answer, the builder reads the resource. It repeats the PUT until the resource is settled
// or the time is up.

// builder makes and removes resources, and waits for them.
type builder struct{ *caller }

// buildVersions has the types that are created and deleted, with the api-version of their calls:
// the newest one that is not a preview. Other types are never created or deleted here.
var buildVersions = map[string]string{
	arm.TypeResourceGroup:  "2024-11-01",
	arm.TypeIdentity:       "2024-11-30",
	arm.TypeRoleDefinition: "2022-04-01",
	arm.TypeRoleAssignment: "2022-04-01",
	arm.TypeCluster:        clusterVersion,
	arm.TypeRouteTable:     networkVersion,
	arm.TypeRoute:          networkVersion,
	arm.TypeVNet:           networkVersion,
	arm.TypeSubnet:         networkVersion,
	arm.TypePublicIP:       networkVersion,
	arm.TypeGateway:        networkVersion,
	// the newest that azurerm uses as well
	arm.TypeActionGroup: "2023-01-01",
	arm.TypeAlertRule:   "2020-10-01",
}

// buildVersion returns the api-version of a type that can be created.
func buildVersion(id arm.ID) (string, error) {
	for resourceType, version := range buildVersions {
		if id.Is(resourceType) {
			return version, nil
		}
	}
	return "", fmt.Errorf("%s is a %s: resources of this type are never created or deleted", id,
		id.Type())
}

// Find reads a resource; nil if there is none.
func (c *builder) Find(ctx context.Context, id arm.ID) (*arm.Document, error) {
	version, err := buildVersion(id)
	if err != nil {
		return nil, err
	}
	a, err := c.get(ctx, c.address(id, "", version))
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	doc, err := a.Document(id)
	return &doc, err
}

func absent(err error) bool {
	fault, is := errors.AsType[*Error](err)
	return is && fault.Status == http.StatusNotFound
}

// Resources returns the resources of a group. A missing group has none.
func (c *builder) Resources(ctx context.Context, group arm.ID) ([]arm.ID, error) {
	found, err := c.listIDs(ctx,
		c.address(group, "/resources", buildVersions[arm.TypeResourceGroup]))
	if absent(err) {
		return nil, nil
	}
	return found, err
}

// Make puts a document and waits until its resource is settled. The error is an *Error if Azure
// refuses it, or if an operation failed. With an ETag the document replaces only that version: if
// the resource has changed since, the error is ErrChanged, and the caller has to read it again.
func (c *builder) Make(
	ctx context.Context, id arm.ID, body []byte, etag string, within time.Duration,
) (arm.Document, error) {
	doc, err := c.untilDone(ctx, http.MethodPut, id, body, etag, within)
	if fault, is := errors.AsType[*Error](err); is && fault.stale() {
		return doc, ErrChanged
	}
	return doc, err
}

// ErrChanged means that the document was not put, because the resource has changed since it was
// read.
var ErrChanged = errors.New("the resource has changed since it was read")

// Remove deletes a resource and waits until it is gone. A missing resource is not an error.
func (c *builder) Remove(ctx context.Context, id arm.ID, within time.Duration) error {
	_, err := c.untilDone(ctx, http.MethodDelete, id, nil, "", within)
	return err
}

// Settle waits until an operation on a resource has ended, and returns the resource; nil if it is
// gone.
func (c *builder) Settle(ctx context.Context, id arm.ID, within time.Duration) (*arm.Document,
	error) {
	deadline := time.Now().Add(within)
	for wait := settleFirst; ; wait = min(2*wait, settleMost) {
		doc, err := c.Find(ctx, id)
		if err != nil || doc == nil || inventory.Settled(doc.Raw) {
			return doc, err
		}
		if time.Now().Add(wait).After(deadline) {
			return doc, fmt.Errorf("%s is still %s after %s", id,
				inventory.ProvisioningState(doc.Raw), within)
		}
		if err := Pause(ctx, wait); err != nil {
			return doc, err
		}
	}
}

// settleFirst and settleMost are the shortest and longest pause between two reads of a resource
// that is being created or deleted.
const settleFirst, settleMost = 500 * time.Millisecond, 5 * time.Second

// untilDone sends a PUT or a DELETE, follows its operation, and reads the resource until it is
// settled or gone.
func (c *builder) untilDone(
	ctx context.Context, method string, id arm.ID, body []byte, etag string, within time.Duration,
) (arm.Document, error) {
	version, err := buildVersion(id)
	if err != nil {
		return arm.Document{}, err
	}
	deadline := time.Now().Add(within)
	for attempt := 0; ; attempt++ {
		if err := c.throttle.wait(ctx, method, string(id)); err != nil {
			return arm.Document{}, err
		}
		fault := c.attempt(ctx, method, c.address(id, "", version), body, etag, deadline)
		if fault != nil && method == http.MethodDelete && absent(fault) {
			return arm.Document{}, nil
		}
		refused, is := errors.AsType[*Error](fault)
		if fault != nil && (!is || !refused.Transient()) {
			return arm.Document{}, fault
		}
		if fault == nil {
			doc, err := c.Settle(ctx, id, time.Until(deadline))
			switch {
			case err != nil && doc == nil && ctx.Err() == nil && transientError(err): // read again
				fault = err
			case err != nil:
				return arm.Document{}, err
			case doc == nil && method == http.MethodDelete:
				return arm.Document{}, nil
			case doc != nil && method == http.MethodPut &&
				inventory.ProvisioningState(doc.Raw) != "Failed":
				return *doc, nil
			case doc != nil && method == http.MethodPut:
				fault = &Error{Method: method, ID: id, Status: http.StatusInternalServerError,
					Code: "Failed", Message: "the operation failed"}
			default: // not seen yet, or still there
				fault = &Error{Method: method, ID: id, Status: http.StatusInternalServerError,
					Code: "NotSettled", Message: "the operation ended, but its effect is not " +
						"visible"}
			}
		}
		pause := min(backoff<<min(attempt, 5), backoffMax)
		if refused != nil {
			pause = max(pause, min(refused.RetryAfter, time.Minute))
		}
		if time.Now().Add(pause).After(deadline) {
			return arm.Document{}, fault
		}
		c.log.Warn("trying again", "id", string(id), "for", pause.String(), "because",
			fault.Error())
		if err := Pause(ctx, pause); err != nil {
			return arm.Document{}, err
		}
	}
}

func transientError(err error) bool {
	fault, is := errors.AsType[*Error](err)
	return is && fault.Transient()
}

// attempt sends a write once and follows the operation that it starts.
func (c *builder) attempt(
	ctx context.Context, method, address string, body []byte, etag string, deadline time.Time,
) error {
	sent, cancel := context.WithTimeout(policy.WithRetryOptions(context.WithoutCancel(ctx), once),
		tryTimeout)
	defer cancel()
	a, err := c.send(sent, method, address, body, etag)
	if err != nil {
		return err
	}
	fault, err := c.follow(ctx, idOf(address), a, deadline)
	if fault != nil {
		return fault
	}
	return err
}

// Pause waits for d, or until the context ends. Then it returns the context's error.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Kubeconfig asks for the kubeconfig with which a person logs in to a cluster.
func (c *builder) Kubeconfig(ctx context.Context, cluster arm.ID) ([]byte, error) {
	address := c.address(cluster, "/listClusterUserCredential", clusterVersion)
	a, err := c.send(policy.WithRetryOptions(ctx, writeRetries), http.MethodPost, address, nil, "")
	if err != nil {
		return nil, err
	}
	var answer struct {
		Kubeconfigs []struct{ Value []byte }
	}
	if err := json.Unmarshal(a.Body, &answer); err != nil || len(answer.Kubeconfigs) == 0 {
		return nil, fmt.Errorf("the answer for the kubeconfig of %s contains no kubeconfig",
			cluster.Short())
	}
	return answer.Kubeconfigs[0].Value, nil
}
