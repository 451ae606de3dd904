package emulator

import (
	"net/http"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// insightsOptions say how alerts fire.
type insightsOptions struct {
	// AlertDelay is how long after a write its activity log alerts fire.
	AlertDelay time.Duration
	// Webhooks is the way to the webhooks of action groups. Nil: the network.
	Webhooks http.RoundTripper
}

// insights is Microsoft.Insights: queries of the activity log, and its alerts.
type insights struct {
	kernel        *kernel
	opts          insightsOptions
	authorization *authorization
	entra         *entra

	webhooks *webhooks
}

// newInsights makes the service, and gives it its place in the kernel.
func newInsights(k *kernel, d *entra, a *authorization, opts insightsOptions) *insights {
	s := &insights{kernel: k, entra: d, authorization: a, opts: opts,
		webhooks: newWebhooks(opts.Webhooks, k.log)}
	k.add(service{types: s.types(), calls: []special{s.activityCall}, listen: s.alert,
		stop: s.webhooks.stop})
	return s
}

// Wait waits for the alerts on their way, without the lock, which nothing has that posts.
func (s *insights) Wait() { s.webhooks.under.Wait() }

// types are the resource types of Microsoft.Insights.
func (s *insights) types() []kind {
	return []kind{
		{name: arm.TypeAlertRule, tracked: true, immediate: true, merges: true,
			settle: s.settleAlert},
		{name: arm.TypeActionGroup, tracked: true, immediate: true, merges: true,
			settle: s.settleActionGroup},
	}
}
