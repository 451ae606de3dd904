package emulator

import (
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// insightsOptions say how alerts fire.
type insightsOptions struct {
	// AlertDelay is how long after a write its activity log alerts fire.
	AlertDelay time.Duration
}

// insights is Microsoft.Insights: queries of the activity log, and its alerts.
type insights struct {
	kernel        *kernel
	opts          insightsOptions
	authorization *authorization
	entra         *entra

	webhooks *webhooks
}

// types are the resource types of Microsoft.Insights.
func (s *insights) types() []kind {
	return []kind{
		{name: arm.TypeAlertRule, tracked: true, immediate: true, merges: true,
			settle: s.settleAlert},
		{name: arm.TypeActionGroup, tracked: true, immediate: true, merges: true,
			settle: s.settleActionGroup},
	}
}

// calls are the queries of the activity log.
func (s *insights) calls() []special { return []special{s.activityCall} }
