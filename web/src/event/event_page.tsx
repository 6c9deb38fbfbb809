import type { PageProps } from "../app";
import { t } from "../strings";

export default function EventPage(_: PageProps & { event: string }) {
  return <section class="page">{t.brand}</section>;
}
