package cli

import (
	"fmt"
	"io"
	"strings"

	"routekeeper.dev/routekeeper/internal/iac/generate"
	"routekeeper.dev/routekeeper/internal/monitor"
	"routekeeper.dev/routekeeper/internal/report"
)

// printMonitor writes code for the resources that install monitor would create.
func printMonitor(a *app, w io.Writer, o monitorOptions, i monitor.Installation,
	watched monitor.Watched) error {
	m := generate.Monitor{
		Name: i.Name(), ShortName: monitor.ShortName, Receiver: monitor.ReceiverName,
		Description: monitor.Description, Operations: monitor.Operations(),
		Webhook: generate.MonitorWebhook{ObjectID: o.webhook.ObjectID, Audience: o.webhook.Audience,
			Tenant: o.webhook.Tenant},
	}
	for _, s := range watched.Subscriptions {
		group, err := i.Group(s.Subscription)
		if err != nil && o.print == "terraform" {
			return fmt.Errorf("--resource-group: %w", err)
		}
		m.Parts = append(m.Parts,
			generate.MonitorPart{Subscription: strings.ToLower(s.Subscription),
				Group: group.ResourceGroup(), Scopes: s.IDs})
	}
	files, err := m.Terraform()
	if o.print == "bicep" {
		files, err = m.Bicep()
	}
	if err != nil {
		return err
	}
	for _, line := range watched.Unknown {
		if _, err := io.WriteString(a.err, "routekeeper: "+report.Plain(line)+"\n"); err != nil {
			return err
		}
	}
	return printOutputs(w, files)
}
