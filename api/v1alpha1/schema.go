package v1alpha1

import _ "embed"

// Schema is the JSON Schema of ClusterRoutes (draft 2020-12), for editors.
//
//go:embed clusterroutes.schema.json
var Schema []byte

// ClusterSchema is the JSON Schema of Cluster.
//
//go:embed cluster.schema.json
var ClusterSchema []byte
