package keeper

import (
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
)

// pause returns until when changes are paused, or "".
func (o *Options) pause() string {
	if o.Paused == nil {
		return ""
	}
	return o.Paused()
}

// Pauses returns spec.pause by the name of its config. Callers must not change them.
func (k *Keeper) Pauses() map[string]v1alpha1.Pause {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pausing
}

// clusterPause returns until when changes for a cluster are paused, and why, or "".
func (o *Options) clusterPause(cluster string) string {
	if o.ClusterPaused == nil {
		return ""
	}
	return o.ClusterPaused(cluster)
}

// PauseEnd returns when a pause of a spec ends. A time that cannot be read counts as past: the
// config check refuses it.
func PauseEnd(p v1alpha1.Pause) time.Time {
	end, err := time.Parse(time.RFC3339, p.Until)
	if err != nil {
		return time.Time{}
	}
	return end
}

// inSpec returns until when a config's own spec pauses its cluster, or "".
func inSpec(c v1alpha1.ClusterRoutes) string {
	if p := c.Spec.Pause; p != nil && time.Now().Before(PauseEnd(*p)) {
		return "until " + p.Until + ": " + p.Reason
	}
	return ""
}
