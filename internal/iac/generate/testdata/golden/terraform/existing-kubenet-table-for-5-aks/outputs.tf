output "cluster_id" {
  value = azurerm_kubernetes_cluster.main.id
}

locals {
  routes = <<-EOT
    apiVersion: routekeeper.dev/v1alpha1
    kind: ClusterRoutes
    metadata:
      name: ${var.name}
    spec:
      clusterID: ${azurerm_kubernetes_cluster.main.id}
      routeTableID: ${local.node_table_id}
      guard:
        mode: Enforce
        subnets:
          - subnetID: ${azurerm_subnet.gateway.id}
            routeTableID: ${azurerm_route_table.gateway.id}
      targets:
        - routeTableID: ${azurerm_route_table.gateway.id}
  EOT
}

output "routes" {
  description = "The keeper's config: terraform output -raw routes > routes.yaml"
  value       = local.routes
}

output "keeper_manifest" {
  description = "The keeper's workload in the cluster: terraform output -raw keeper_manifest | kubectl apply -f -"
  value       = <<-EOT
    apiVersion: v1
    kind: Namespace
    metadata:
      name: routekeeper
    ---
    apiVersion: v1
    kind: ServiceAccount
    metadata:
      name: routekeeper
      namespace: routekeeper
      annotations:
        azure.workload.identity/client-id: ${azurerm_user_assigned_identity.keeper.client_id}
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: routekeeper
      namespace: routekeeper
    data:
      routes.yaml: |
        apiVersion: routekeeper.dev/v1alpha1
        kind: ClusterRoutes
        metadata:
          name: ${var.name}
        spec:
          clusterID: ${azurerm_kubernetes_cluster.main.id}
          routeTableID: ${local.node_table_id}
          guard:
            mode: Enforce
            subnets:
              - subnetID: ${azurerm_subnet.gateway.id}
                routeTableID: ${azurerm_route_table.gateway.id}
          targets:
            - routeTableID: ${azurerm_route_table.gateway.id}
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: routekeeper
      namespace: routekeeper
    spec:
      replicas: 1
      strategy:
        type: Recreate
      selector:
        matchLabels:
          app: routekeeper
      template:
        metadata:
          labels:
            app: routekeeper
            azure.workload.identity/use: "true"
        spec:
          serviceAccountName: routekeeper
          # On the node's network: the keeper repairs the routes between pods, and must not need them.
          hostNetwork: true
          dnsPolicy: Default
          containers:
            - name: routekeeper
              image: ${var.image}
              args:
                - "run"
                - "-f"
                - "/etc/routekeeper/routes.yaml"
                - "--listen"
                - "127.0.0.1:18080"
              livenessProbe:
                httpGet:
                  host: 127.0.0.1
                  path: /livez
                  port: 18080
                periodSeconds: 10
              readinessProbe:
                httpGet:
                  host: 127.0.0.1
                  path: /readyz
                  port: 18080
                periodSeconds: 10
              resources:
                requests:
                  cpu: 50m
                  memory: 64Mi
                limits:
                  memory: 512Mi
              securityContext:
                allowPrivilegeEscalation: false
                readOnlyRootFilesystem: true
                runAsNonRoot: true
                runAsUser: 65532
                capabilities:
                  drop: [ALL]
              volumeMounts:
                - name: config
                  mountPath: /etc/routekeeper
          volumes:
            - name: config
              configMap:
                name: routekeeper
  EOT
}
