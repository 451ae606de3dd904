// Package deploy holds what runs and watches routekeeper elsewhere: a unit for systemd, alert rules
// for Prometheus, a dashboard for Grafana. There is no code in it: its tests put all of that to
// use, with the program, Prometheus' own engine and systemd's own check, so that a flag, a metric
// or a label cannot be renamed in one place only.
//
// It is tests only, so that the program links nothing of Prometheus but its client.
package deploy
