import type { PageProps } from "../app";
import { t } from "../strings";

export default function EventsPage(_: PageProps) {
  return <section class="page">{t.brand}</section>;
}
