#!/bin/sh
# Azure CLI 2.45 against a local Azure: a network, a kubenet cluster in it, the association lost and put back, all of it deleted. In between
# a template is deployed, and a gateway, which az sends as one.
# In: what session.sh says, and KUBECTL (a path, or nothing).
set -eu
. "$(dirname "$0")/session.sh"

group="--resource-group shop-rg"
nodes="$group --vnet-name shop-vnet --name nodes"
shop="$group --name shop"
providers=/subscriptions/$SUBSCRIPTION/resourceGroups/shop-rg/providers
template="--name shop --template-file $(dirname "$0")/template.json"

step group group create --name shop-rg --location westeurope
step vnet network vnet create $group --name shop-vnet --address-prefixes 10.42.0.0/16
step subnet-nodes network vnet subnet create $nodes --address-prefixes 10.42.1.0/24
step subnet-appgw network vnet subnet create $group --vnet-name shop-vnet --name appgw --address-prefixes 10.42.2.0/24
step table network route-table create $group --name shop-rt
step route network route-table route create $group --route-table-name shop-rt --name egress \
  --address-prefix 0.0.0.0/0 --next-hop-type VirtualAppliance --next-hop-ip-address 10.42.3.4
step associate network vnet subnet update $nodes --route-table shop-rt

# The assignee is looked up in Microsoft Graph, the role by its name.
step identity identity create $group --name shop-identity
principal=$(said principalId identity)
step role role assignment create --assignee "$principal" --role "Network Contributor" $group \
  --name a55160ed-0000-4000-8000-000000000001
step roles role assignment list $group
step feature feature register --namespace Microsoft.ContainerService --name PodSubnetPreview

step cluster aks create $shop --network-plugin kubenet --node-count 3 --no-ssh-key --skip-subnet-role-assignment \
  --vnet-subnet-id "$providers/Microsoft.Network/virtualNetworks/shop-vnet/subnets/nodes" \
  --assign-identity "$providers/Microsoft.ManagedIdentity/userAssignedIdentities/shop-identity"
# An alert on the cluster's table, as install monitor makes one.
step action-group monitor action-group create $group --name keeper --short-name keeper --action webhook keeper https://keeper.example.com/events/secret usecommonalertschema
step alert monitor activity-log alert create $group --name keeper --action-group keeper --scope "$providers/Microsoft.Network/routeTables/shop-rt" \
  --condition category=Administrative and operationName=Microsoft.Network/routeTables/write and status=Succeeded
step alerts monitor activity-log alert list $group
step delete-alert monitor activity-log alert delete $group --name keeper
step delete-action-group monitor action-group delete $group --name keeper
step scale aks scale $shop --nodepool-name nodepool1 --node-count 5
step pools aks nodepool list $group --cluster-name shop
step credentials aks get-credentials $shop --file "$OUT/kubeconfig"
# kubectl, where there is one, by the kubeconfig that az got.
[ -z "${KUBECTL:-}" ] || "$KUBECTL" --kubeconfig "$OUT/kubeconfig" get nodes --output json >"$OUT/kubectl.json"
managed=$(said nodeResourceGroup scale)
step scaleset vmss list --resource-group "$managed"
step nics vmss nic list --resource-group "$managed" --vmss-name "$(said name scaleset | grep ^aks- | uniq)"
step routes network route-table route list $group --route-table-name shop-rt

step strip network vnet subnet update $nodes --remove routeTable
step stripped network route-table show $group --name shop-rt
step restore network vnet subnet update $nodes --route-table shop-rt
step activity monitor activity-log list $group --offset 1h --max-events 500

# Deployments: of a template, and of what az itself makes a template of.
step validate deployment group validate $group $template
step what-if deployment group what-if $group $template --no-pretty-print
step deploy deployment group create $group $template
step what-if-again deployment group what-if $group $template --no-pretty-print
step deployment deployment group show $group --name shop
step deployments deployment group list $group
step operations deployment operation group list $group --name shop
step gateway network application-gateway create $group --name shop-gw --sku Standard_v2 --priority 100 \
  --public-ip-address shop-gw-ip --vnet-name shop-vnet --subnet appgw
# az writes the gateway's field of the subnet in another case than Azure: applicationGatewayIpConfigurations.
step tag-vnet network vnet update $group --name shop-vnet --set tags.team=net
step tagged-vnet rest --method get --url "$HTTPS$providers/Microsoft.Network/virtualNetworks/shop-vnet?api-version=2025-05-01"
step delete-gateway network application-gateway delete $group --name shop-gw

step delete-cluster aks delete $shop --yes
step delete-vnet network vnet delete $group --name shop-vnet
step delete-table network route-table delete $group --name shop-rt
step delete-identity identity delete $group --name shop-identity
step left resource list $group
step delete-group group delete --name shop-rg --yes
step groups group list
