/** What travels over HTTP, as far as the pages read it. The names are those of the public contract. */

export type SeatState = "available" | "held" | "sold";
export type EventState = "on_sale" | "paused" | "closed";

/** GET /pages.json: what a page must know before its first call. */
export interface Deployment {
  version: string;
  /** The pages' own public key; null when the operator has revoked it. */
  key: string | null;
  lab: "open" | "admin" | "off";
  payments: "sandbox" | "stripe" | "none";
  gate: boolean;
}

export interface EventView {
  id: string;
  name: string;
  currency: string;
  state: EventState;
  capacity: number;
  available: number;
  held: number;
  sold: number;
  percent_sold: number;
  revenue: number;
  seq: number;
  hold_seconds: number;
  grace_seconds: number;
  max_extensions: number;
  max_per_buyer: number | null;
  prices: Record<string, number>;
  policy: string | null;
  gate: boolean;
  flash_sale: boolean;
}

export interface MapSeat {
  id: string;
  section: string;
  row: string;
  number: number;
  tier: string;
  x: number;
  y: number;
  state: SeatState;
  accessible?: boolean;
  companion?: boolean;
  restricted_view?: boolean;
}

export interface MapPool {
  id: string;
  capacity: number;
  available: number;
  tier?: string;
}

export interface SeatMapView {
  seq: number;
  seats: MapSeat[];
  pools: MapPool[];
}

export interface BestAsk {
  quantity: number;
  section?: string;
  tier?: string;
  together?: boolean;
  accessible?: boolean;
}

export interface Ask {
  seats?: string[];
  best?: BestAsk[];
  pools?: Record<string, number>;
}

export type HoldState = "held" | "paying" | "confirmed" | "released" | "expired";

export interface Hold {
  id: string;
  event: string;
  buyer: string;
  state: HoldState;
  seats: string[];
  pools: Record<string, number>;
  amount: number;
  currency: string;
  expires_at: string;
  seconds_left: number;
  version: number;
  /** The secret that proves whose it is; only where it was made. */
  token?: string;
  order?: string;
}

export interface Order {
  id: string;
  event: string;
  state: string;
  hold: string | null;
  buyer: string;
  seats: string[];
  pools: Record<string, number>;
  amount: number;
  currency: string;
  payment: { provider: string; id: string | null; state: string } | null;
  created_at: string;
  refunded?: number;
  settlement?: string;
  /** Why it was declined, or why there was nothing to sell. */
  reason?: string;
  next_action?: { type: string; url?: string };
}

/** The frames of the live map. */
export interface Snapshot extends SeatMapView {
  type: "snapshot";
}

export interface Changes {
  type: "changes";
  from: number;
  to: number;
  changes: [string, SeatState][];
  pools?: Record<string, number>;
}

export type Frame = Snapshot | Changes;
