// What programs in TypeScript do with the generated types and openapi-fetch: node uses.js URL ENDPOINT.
// Whatever the document describes wrongly does not compile, or fails here.

import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

const [url, endpoint] = process.argv.slice(2);
assert(url && endpoint);
const client = createClient<paths>({ baseUrl: url });

const tenant: components["schemas"]["Tenant.v2"] = { tenantName: "red" };
const created = await client.POST("/api/v2/tenants", { body: tenant });
assert.equal(created.response.status, 201);
const etag = created.response.headers.get("ETag");
assert(etag);

const patched = await client.PATCH("/api/v2/tenants/{key}", {
  params: { path: { key: "red" }, header: { "If-Match": etag } },
  body: { networkPrefixes: ["10.0.0.0/8"] },
  headers: { "Content-Type": "application/merge-patch+json" },
});
assert(patched.data && "tenantName" in patched.data);
assert.deepEqual(patched.data.networkPrefixes, ["10.0.0.0/8"]);
const stale = await client.DELETE("/api/v2/tenants/{key}", {
  params: { path: { key: "red" }, header: { "If-Match": etag } },
});
const problem: components["schemas"]["Problem"] | undefined = stale.error;
assert.equal(problem?.status, 412);
assert(problem.remedy);

const cleared = await client.PATCH("/api/v2/tenants/{key}", {
  params: { path: { key: "red" } },
  body: { networkPrefixes: null },
});
assert(cleared.data && "tenantName" in cleared.data);
assert.deepEqual(cleared.data.networkPrefixes, []);

const wrong = await client.POST("/api/v2/networks", {
  body: { tenantName: "red", networkName: "sea", encap: "smoke", subnet: "10.1.0.0/16" },
});
assert.equal(wrong.error?.status, 422);
assert.equal(wrong.error.errors?.[0]?.pointer, "#/encap");

const tried = await client.DELETE("/api/v2/tenants/{key}", {
  params: { path: { key: "red" }, query: { dryRun: true } },
});
assert(tried.data);
assert.equal(tried.data.status, 204);
assert(tried.data.effects.writes?.some((write) => write.action === "delete"));

const page = await client.GET("/api/v2/networks", { params: { query: { limit: 1 } } });
assert(page.data && page.data.items.length === 1 && page.data.next !== undefined);
const listed = await client.GET("/api/v2/endpoints", { params: { query: {} } });
assert(listed.data?.items?.some((one) => one.key === endpoint));
const traced = await client.GET("/api/v2/trace", {
  params: { query: { src: endpoint, dst: "10.20.0.1" } },
});
assert(traced.data?.hops?.[0]?.steps?.length);

const packets = await client.GET("/api/v2/endpoints/{key}/capture", {
  params: { path: { key: endpoint }, query: { count: "2" } },
  parseAs: "arrayBuffer",
});
assert(packets.data, JSON.stringify(packets.error));
assert.equal(new DataView(packets.data as unknown as ArrayBuffer).getUint32(0, true), 0xa1b23c4d);
const archive = await client.GET("/api/v2/diagnosis", { parseAs: "arrayBuffer" });
assert.equal(new DataView(archive.data as unknown as ArrayBuffer).getUint16(0), 0x1f8b);

const gone = await client.DELETE("/api/v2/tenants/{key}", { params: { path: { key: "red" } } });
assert.equal(gone.response.status, 204);
