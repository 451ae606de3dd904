package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/monitor"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/report"
)

// setUp makes the changes in their order, or only reports them. It stops at the first error.
func setUp(ctx context.Context, client *azure.Client, webhook monitor.Webhook,
	changes []monitor.Change, yes bool) (told []report.AlertChange, failed error) {
	for _, c := range changes {
		t := report.AlertChange{Verb: c.Verb, Resource: c.Resource, Kind: "alert rule",
			Why: c.Why, State: plan.Planned}
		if c.Resource.Is(arm.TypeActionGroup) {
			t.Kind = "action group"
		}
		switch {
		case failed != nil:
			t.State = plan.Skipped
		case yes:
			t.State = plan.Done
			if err := makeChange(ctx, client, c); err != nil {
				failed = errors.New(webhook.Conceal(err.Error()) + toBeAllowed(c.Resource, err))
				t.State, t.Error = plan.Failed, failed.Error()
			}
		}
		told = append(told, t)
	}
	return told, failed
}

// toBeAllowed says which permission a refused write needs.
func toBeAllowed(id arm.ID, err error) string {
	if refused := new(azure.Error); errors.As(err, &refused) &&
		refused.Code == "AuthorizationFailed" {
		return "; you need Monitoring Contributor, or another role that may write it, on " +
			string(id.Group())
	}
	return ""
}

// makeChange makes one change and reads it back.
func makeChange(ctx context.Context, client *azure.Client, c monitor.Change) error {
	var after arm.Document
	var err error
	switch c.Verb {
	case plan.Delete:
		return client.DeleteAlertResource(ctx, c.Resource, func(d arm.Document) error {
			_, err := c.Edit(d)
			return err
		})
	case plan.Create:
		after, err = client.CreateAlertResource(ctx, c.Resource, c.Body)
	default:
		var written azure.Written
		written, err = client.Write(ctx, c.Resource, c.Edit, nil)
		after = written.After
	}
	if err != nil {
		return err
	}
	if left := c.Left(after); len(left) > 0 {
		return fmt.Errorf("%s was written, and reads differently: %s", c.Resource,
			strings.Join(left, "; "))
	}
	return nil
}
